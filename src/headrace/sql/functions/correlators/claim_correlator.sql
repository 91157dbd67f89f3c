-- Claims the next events of a correlator: those after from_position up to upto. No row when nothing is due, when another session
-- holds it, when the topic runs on another engine, or while a version waits for the compiler: an event published after a change
-- does not pass before the change is active.
-- Locks: the cursor row, no key update, skip locked, until the end of the transaction. Index: log_position backwards.
create or replace function headrace_internal.claim_correlator(p_correlator_id integer, p_max integer)
returns table (consumer_id bigint, topic_id integer, version_id bigint, from_position bigint, upto bigint)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_single_to bigint;
begin
    select u.consumer_id, c.topic_id, u.position, u.single_to into consumer_id, topic_id, from_position, v_single_to
    from headrace_internal.correlator_table t
    join headrace_internal.consumer c on c.consumer_id = t.consumer_id
    join headrace_internal.cursor u on u.consumer_id = t.consumer_id and u.partition = -1
    where t.correlator_id = p_correlator_id
        and u.state = 'running' and (u.retry_at is null or u.retry_at <= headrace.clock())
        and not exists (select from headrace_internal.pause p where p.consumer_id = c.consumer_id)
    for no key update of u skip locked;
    -- Checked while the cursor is locked: moving a topic to another engine and compiling lock it as well.
    if not found or (select t.engine from headrace_internal.topic t where t.topic_id = claim_correlator.topic_id) <> 'database' then
        return;
    end if;
    select t.version_id into version_id
    from headrace_internal.correlator_table t where t.correlator_id = p_correlator_id and not t.halted;
    upto := (
        select least(h.position, from_position + case when v_single_to > from_position then 1 else p_max end)
        from headrace.log_head(topic_id) h);
    if version_id is null or upto is null or upto <= from_position or exists (
        select from headrace_internal.correlator_version v where v.correlator_id = p_correlator_id and v.status = 'pending') then
        return;
    end if;
    return next;
end
$$;
