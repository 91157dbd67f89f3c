-- The format of the time in the names of pg_partman's partitions of a topic; null for a topic it does not manage.
create or replace function headrace_internal.partman_format(p_topic_id integer) returns text
language plpgsql stable
as $$
declare
    v_schema text;
    v_format text;
begin
    select p.schema into v_schema from headrace_internal.partman() p;
    if found then
        execute format('select datetime_string from %I.part_config where parent_table = %L',
            v_schema, 'headrace_internal.log_' || p_topic_id) into v_format;
    end if;
    return v_format;
end
$$;
