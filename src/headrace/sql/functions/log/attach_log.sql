-- Attaches the branch of a topic to the log, before its first event. Not when the topic is created: the lock on the log lasts to the
-- end of the transaction, and that of a user may stay open for long, in front of the new topics of every namespace.
-- Runs as the owner: a node may not alter tables.
-- Locks: the branch, access exclusive, for which it waits at most 10 ms: whoever reads the empty branch of his own topic delays only
-- that topic. The log, share update exclusive, so readers and writers of other topics continue.
create or replace function headrace_internal.attach_log(p_topic_id integer) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set default_tablespace = ''
set lock_timeout = '10ms'
as $$
declare
    v_branch text := 'log_' || p_topic_id;
begin
    execute format('lock table headrace_internal.%I in access exclusive mode', v_branch);
    execute format('alter table headrace_internal.log attach partition headrace_internal.%I for values in (%L)', v_branch, p_topic_id);
    update headrace_internal.topic t set attached = true where t.topic_id = p_topic_id;
end
$$;
