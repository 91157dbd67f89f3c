-- Gives a new topic its branch of the log. Runs as the owner, because a branch is a table of ours; safe for whoever may call
-- it: a topic that has its branch, or is not there, is left as it is.
create or replace function headrace_internal.add_branch(p_topic_id integer) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_branch text := 'log_' || p_topic_id;
begin
    if to_regclass(format('headrace_internal.%I', v_branch)) is not null
        or not exists (select from headrace.topic t where t.topic_id = p_topic_id) then
        return;
    end if;
    execute format('create table headrace_internal.%I (like headrace_internal.log) partition by range (appended_at)', v_branch);
    execute format('alter table headrace_internal.log attach partition headrace_internal.%I for values in (%L)', v_branch, p_topic_id);
    perform headrace_internal.partman_adopt(p_topic_id);
    perform headrace_internal.extend_log(p_topic_id, headrace.clock());
end
$$;
