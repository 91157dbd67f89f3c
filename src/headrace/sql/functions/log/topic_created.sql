-- After a topic was inserted: records its first partition count and creates its branch of the log. Runs as the owner, because a
-- branch is a table of ours; only a trigger, so nobody can call it.
create or replace function headrace_internal.topic_created() returns trigger
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_branch text := 'log_' || new.topic_id;
begin
    insert into headrace_internal.topic_border (topic_id, position, partitions) values (new.topic_id, 0, new.partitions);
    execute format('create table headrace_internal.%I (like headrace.log) partition by range (appended_at)', v_branch);
    execute format('alter table headrace.log attach partition headrace_internal.%I for values in (%L)', v_branch, new.topic_id);
    perform headrace_internal.partman_adopt(new.topic_id);
    perform headrace_internal.extend_log(new.topic_id, headrace.clock());
    return null;
end
$$;

create or replace trigger topic_created after insert on headrace.topic
for each row execute function headrace_internal.topic_created();
