-- The hash of a key, 0 to 2^32 - 1: the first four bytes of SHA-256 of its UTF-8. The same in Python and Spark and on every
-- PostgreSQL version; partitions and shards depend on it. Stable, not immutable, so that it is inlined.
create or replace function headrace_internal.key_hash(p_key text) returns bigint
language sql stable strict parallel safe
as $$
    select ('x' || pg_catalog.left(pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(p_key, 'UTF8')), 'hex'), 8))::bit(32)::bigint
$$;
