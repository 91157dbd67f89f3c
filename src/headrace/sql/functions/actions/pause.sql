-- Pauses a consumer (topic/consumer), rule, correlator, relay, schedule, action (all handlers of that name) or the queue of a namespace,
-- until headrace.resume. False: it was paused already. What runs now finishes; nodes start nothing new within a second.
-- Nothing is lost: cursors stay where they are, and actions stay in the queue. A paused rule is still evaluated and recorded, and its
-- actions are held in the queue. A paused schedule skips its ticks. Locks: nothing that others wait for.
create or replace function headrace.pause(
    p_kind text, p_name text default '', p_reason text default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, headrace_internal.pause_level(p_kind, p_name), p_namespace,
        case p_kind when 'consumer' then substring(p_name from '^(.*)/[^/]*$') end);
    v_subject   record;
begin
    if p_kind = 'schedule' then
        update headrace_internal.schedule s set active = false
        where s.schedule_id = headrace.schedule_id(p_name, v_namespace) and s.active;
        return found;
    end if;
    select s.consumer_id, s.rule_id into v_subject from headrace_internal.pause_subject(p_kind, p_name, v_namespace) s;
    insert into headrace_internal.pause (namespace, kind, name, consumer_id, rule_id, reason, paused_by)
    values (v_namespace, p_kind, coalesce(p_name, ''), v_subject.consumer_id, v_subject.rule_id, p_reason, p_caller)
    -- Also by the consumer: a relay is a consumer, too, and may be paused under either name.
    on conflict do nothing;
    return found;
end
$$;
