-- Claims a correlator to fire its timers that are due by a settled time. No row when another session holds it, when the topic does
-- not run on the engine that asks, while a version waits for the compiler, or while earlier events have not been passed. Locks:
-- the cursor row, no key update, skip locked.
create or replace function headrace_internal.claim_timers(p_correlator_id integer, p_settled timestamptz, p_engine text default 'database')
returns table (version_id bigint)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_cursor record;
    v_next   timestamptz;
begin
    select c.topic_id, u.position into v_cursor
    from headrace_internal.correlator_table t
    join headrace_internal.consumer c on c.consumer_id = t.consumer_id
    join headrace_internal.cursor u on u.consumer_id = t.consumer_id and u.partition = -1
    where t.correlator_id = p_correlator_id
        and u.state = 'running' and (u.retry_at is null or u.retry_at <= headrace.clock())
        and not exists (select from headrace_internal.pause p where p.consumer_id = c.consumer_id)
    for no key update of u skip locked;
    if not found or (select t.engine from headrace_internal.topic t where t.topic_id = v_cursor.topic_id) <> p_engine then
        return;
    end if;
    select t.version_id into version_id
    from headrace_internal.correlator_table t where t.correlator_id = p_correlator_id and not t.halted;
    -- By the topic's own branch: by the whole log it would be planned for, and lock, every topic.
    execute format('select l.appended_at from headrace_internal.%I l where l.position > $1 order by l.position limit 1',
        'log_' || v_cursor.topic_id) into v_next using v_cursor.position;
    if version_id is null or v_next < p_settled or exists (
        select from headrace_internal.correlator_version v where v.correlator_id = p_correlator_id and v.status = 'pending') then
        return;
    end if;
    return next;
end
$$;
