-- Sends actions to a namespace's queue, in order, in the caller's transaction, and returns their message ids in the same order.
-- An action is an object with at least "id" (a uuid) and "action" (its name); "payload", "key", "priority", "namespace",
-- "event_type", "emitted_at", "producer", "scheduled_task_id", "cause" and "headers" (the trace context) are optional. p_delays: seconds
-- to wait, one per action.
-- Locks nothing. One insert for all actions of one delay.
create or replace function headrace.send_actions(
    p_namespace text, p_actions jsonb[], p_delays integer[] default null, p_caller headrace_internal.caller default current_user
)
returns setof bigint
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'any', p_namespace);
    v_queue     text := headrace_internal.queue_of(v_namespace);
begin
    if cardinality(p_actions) = 0 then
        return;
    end if;
    if exists (select from unnest(p_actions) a where not coalesce(a ?& array['id', 'action'], false)) then
        raise exception 'an action without "id" or "action" was sent to namespace "%"', v_namespace
            using errcode = 'HR300', hint = 'Send objects such as {"id": uuid, "action": "NAME", "payload": ...}.';
    end if;
    perform headrace.wake_queue(v_namespace);
    if p_delays is null then
        return query select s from pgmq.send_batch(v_queue, p_actions, null::jsonb[], headrace.clock()) s;
        return;
    end if;
    return query
        with due as (
            select coalesce(d.delay_s, 0) as delay_s, array_agg(a.action order by a.place) as actions,
                array_agg(a.place order by a.place) as places
            from unnest(p_actions) with ordinality a (action, place)
            left join unnest(p_delays) with ordinality d (delay_s, place) on d.place = a.place
            group by coalesce(d.delay_s, 0)
        ), sent as materialized (
            select u.place, u.msg_id
            from due,
            lateral rows from (
                unnest(due.places),
                pgmq.send_batch(v_queue, due.actions, null::jsonb[], headrace.clock() + make_interval(secs => due.delay_s))
            ) u (place, msg_id)
        )
        select s.msg_id from sent s order by s.place;
end
$$;
