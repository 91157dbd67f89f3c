-- Drops the branch of a topic that is gone; a topic that exists keeps its log.
create or replace function headrace_internal.drop_branch(p_topic_id integer) returns void
language plpgsql volatile
as $$
begin
    if exists (select from headrace.topic t where t.topic_id = p_topic_id) then
        return;
    end if;
    perform headrace_internal.partman_forget(p_topic_id);
    execute format('drop table if exists headrace_internal.%I', 'log_' || p_topic_id);
end
$$;
