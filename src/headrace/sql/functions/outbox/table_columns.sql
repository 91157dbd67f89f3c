-- The names of a table's columns, in their order.
create or replace function headrace_internal.table_columns(p_table regclass) returns text[]
language sql stable
as $$
    select array_agg(a.attname::text order by a.attnum)
    from pg_attribute a where a.attrelid = p_table and a.attnum > 0 and not a.attisdropped
$$;
