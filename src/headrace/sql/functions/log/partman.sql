-- Where pg_partman is installed: its schema and major version (4 and 5 have other signatures); else no row.
create or replace function headrace_internal.partman() returns table (schema text, major integer)
language sql stable
as $$
    select n.nspname::text, split_part(e.extversion, '.', 1)::integer
    from pg_extension e join pg_namespace n on n.oid = e.extnamespace
    where e.extname = 'pg_partman'
$$;
