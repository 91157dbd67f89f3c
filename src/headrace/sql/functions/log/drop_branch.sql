-- Drops the branch of a topic that is gone, also from the configuration of pg_partman; a topic that exists keeps its log.
create or replace function headrace_internal.drop_branch(p_topic_id integer) returns void
language plpgsql volatile
as $$
declare
    v_partman text := (select p.schema from headrace_internal.partman() p);
begin
    if exists (select from headrace.topic t where t.topic_id = p_topic_id) then
        return;
    end if;
    if v_partman is not null then
        execute format('delete from %I.part_config where parent_table = %L', v_partman, 'headrace_internal.log_' || p_topic_id);
    end if;
    execute format('drop table if exists headrace_internal.%I', 'log_' || p_topic_id);
end
$$;
