-- Resumes what headrace.pause has paused, and lets stopped and waiting partitions of a consumer try again at once. Returns how many
-- go on: partitions of a consumer, held actions of a rule or action, else 1; 0 if nothing was paused or stopped.
-- Locks: the pause's row, so it waits for rules that send held actions at the moment; the held actions; a consumer's failed cursors.
create or replace function headrace.resume(
    p_kind text, p_name text default '', p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, headrace_internal.pause_level(p_kind, p_name), p_namespace,
        case p_kind when 'consumer' then substring(p_name from '^(.*)/[^/]*$') end);
    v_consumer_id bigint;
    v_was_paused  boolean;
    v_count       integer := 0;
begin
    if p_kind = 'schedule' then
        update headrace_internal.schedule s set active = true
        where s.schedule_id = headrace.schedule_id(p_name, v_namespace) and not s.active;
        return found::integer;
    end if;
    -- An unknown name is an error, not an idle resume.
    select s.consumer_id into v_consumer_id from headrace_internal.pause_subject(p_kind, p_name, v_namespace) s;
    delete from headrace_internal.pause p
    where (p.namespace = v_namespace and p.kind = p_kind and p.name = coalesce(p_name, '')) or p.consumer_id = v_consumer_id;
    v_was_paused := found;
    if v_consumer_id is not null then
        -- A disabled relay is checked and tried again.
        update headrace_internal.relay r set status = 'pending', error = null
        from headrace_internal.consumer c
        where c.consumer_id = v_consumer_id and r.topic_id = c.topic_id and c.consumer = 'relay.' || r.relay and r.status = 'disabled';
        select count(*) into v_count from headrace_internal.cursor c
        where c.consumer_id = v_consumer_id and (v_was_paused or c.state = 'stopped' or c.retry_at is not null);
        update headrace_internal.cursor c set state = 'running', attempts = 0, retry_at = null, error = null, traceback = null
        where c.consumer_id = v_consumer_id and (c.state = 'stopped' or c.retry_at is not null);
        perform headrace_internal.notify('headrace_log', c.topic_id::text), headrace_internal.notify('headrace_relay', '') from headrace_internal.consumer c where c.consumer_id = v_consumer_id;
        return v_count;
    end if;
    if v_was_paused and p_kind in ('rule', 'action') then
        v_count := headrace_internal.release_held_actions(v_namespace,
            case p_kind when 'rule' then p_name end, case p_kind when 'action' then p_name end);
    end if;
    if v_was_paused then
        perform headrace.wake_queue(v_namespace);
    end if;
    return greatest(v_count, v_was_paused::integer);
end
$$;
