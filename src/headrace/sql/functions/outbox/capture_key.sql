-- The columns that make the key of a captured row: the one given, else the primary key's, else none.
create or replace function headrace_internal.capture_key(p_table regclass, p_key_column text) returns text[]
language sql stable
as $$
    select case when p_key_column is not null then array[p_key_column] else coalesce((
        select array_agg(a.attname::text order by k.place)
        from pg_index i
        cross join unnest(i.indkey) with ordinality k (attnum, place)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
        where i.indrelid = p_table and i.indisprimary and k.place <= i.indnkeyatts
    ), '{}') end
$$;
