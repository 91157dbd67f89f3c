-- pg_partman's schema, its major version (4 and 5 have different signatures), and the format of the time in the names of a topic's
-- partitions: null for a topic it does not manage. No row if it is not installed.
create or replace function headrace_internal.partman(p_topic_id integer) returns table (schema text, major integer, name_format text)
language plpgsql stable
as $$
begin
    select n.nspname::text, split_part(e.extversion, '.', 1)::integer into schema, major
    from pg_extension e join pg_namespace n on n.oid = e.extnamespace
    where e.extname = 'pg_partman';
    if found then
        execute format('select datetime_string from %I.part_config where parent_table = %L',
            schema, 'headrace_internal.log_' || p_topic_id) into name_format;
        return next;
    end if;
end
$$;
