-- Gives a new topic its branch of the log. Runs as the owner, because a branch is a table of ours; safe for whoever may call
-- it: a topic that has its branch, or is not there, is left as it is.
create or replace function headrace.add_branch(p_topic_id integer) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_branch text := 'log_' || p_topic_id;
begin
    if to_regclass(format('headrace.%I', v_branch)) is not null
        or not exists (select from headrace.topic t where t.topic_id = p_topic_id) then
        return;
    end if;
    execute format('create table headrace.%I (like headrace.log) partition by range (appended_at)', v_branch);
    execute format('alter table headrace.log attach partition headrace.%I for values in (%L)', v_branch, p_topic_id);
    perform headrace.partman_adopt(p_topic_id);
    perform headrace.extend_log(p_topic_id, headrace.clock());
end
$$;

-- Drops the branch of a topic that is gone. Runs as the owner; safe for whoever may call it: a topic that is there keeps its log.
create or replace function headrace.drop_branch(p_topic_id integer) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from headrace.topic t where t.topic_id = p_topic_id) then
        return;
    end if;
    perform headrace.partman_forget(p_topic_id);
    execute format('drop table if exists headrace.%I', 'log_' || p_topic_id);
end
$$;
