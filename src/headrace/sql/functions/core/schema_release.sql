-- The release of headrace that last migrated this database, and the oldest release whose nodes can run on it. No row before the
-- first migration that recorded it.
create or replace function headrace.schema_release() returns table (release text, oldest_node text)
language sql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    select r.release, r.oldest_node from headrace_internal.release r order by r.migrated_at desc, r.release desc limit 1
$$;
