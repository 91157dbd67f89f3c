-- The schema and major version of pg_partman (4 and 5 have different signatures); no row if it is not installed.
create or replace function headrace_internal.partman() returns table (schema text, major integer)
language sql stable
as $$
    select n.nspname::text, split_part(e.extversion, '.', 1)::integer
    from pg_extension e join pg_namespace n on n.oid = e.extnamespace
    where e.extname = 'pg_partman'
$$;
