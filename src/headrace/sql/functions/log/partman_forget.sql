-- Removes a dropped topic from pg_partman's configuration.
create or replace function headrace_internal.partman_forget(p_topic_id integer) returns void
language plpgsql volatile
as $$
declare
    v_schema text;
begin
    select p.schema into v_schema from headrace_internal.partman() p;
    if found then
        execute format('delete from %I.part_config where parent_table = %L', v_schema, 'headrace_internal.log_' || p_topic_id);
    end if;
end
$$;
