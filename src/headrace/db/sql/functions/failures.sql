-- Records that a unit of a loop failed and returns when to try it again: after p_backoff_s seconds, twice as long after each further
-- failure, at most p_backoff_max_s, with jitter (half to all of it).
-- Call it in a transaction that commits, not in the one that failed. Locks: the row of this failure. Index: failure_pkey.
create or replace function headrace_internal.record_failure(
    p_kind          text,
    p_namespace     text,
    p_name          text,
    p_error         text,
    p_backoff_s     double precision default 1,
    p_backoff_max_s double precision default 300
) returns timestamptz
language sql volatile
-- The caller's session may have any.
set search_path = pg_catalog, pg_temp
as $$
    insert into headrace_internal.failure as f (kind, namespace, name, error, retry_at)
    values (p_kind, coalesce(p_namespace, ''), p_name, left(p_error, 10000),
        headrace.clock() + make_interval(secs => (0.5 + random() / 2) * least(p_backoff_s, p_backoff_max_s)))
    on conflict on constraint failure_pkey do update
    set error = excluded.error, failures = f.failures + 1, last_at = excluded.last_at,
        retry_at = headrace.clock() + make_interval(
            secs => (0.5 + random() / 2) * least(p_backoff_max_s, p_backoff_s * 2 ^ least(f.failures, 30)))
    returning f.retry_at
$$;

-- Forgets the failure of a unit that has succeeded. True if there was one. Cheap without one: an index probe that locks nothing.
-- Locks: the row of the failure. Index: failure_pkey.
create or replace function headrace_internal.clear_failure(p_kind text, p_namespace text, p_name text) returns boolean
language plpgsql volatile
-- The caller's session may have any.
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from headrace_internal.failure f
    where f.kind = p_kind and f.namespace = coalesce(p_namespace, '') and f.name = p_name;
    return found;
end
$$;
