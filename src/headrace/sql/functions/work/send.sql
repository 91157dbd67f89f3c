-- Puts actions into a namespace's queue, in their order, and returns their message ids in the same order. In the caller's transaction.
-- An action is an object with at least "id" (a uuid) and "action" (its name); "payload", "key", "priority", "namespace",
-- "event_type", "emitted_at", "producer", "scheduled_task_id" and "cause" go along. p_delays: seconds each one waits first.
-- Locks nothing. One insert for all of one delay.
create or replace function headrace.send_actions(p_namespace text, p_actions jsonb[], p_delays integer[] default null)
returns setof bigint
language plpgsql volatile
as $$
declare
    v_queue text := headrace.queue_name(p_namespace);
begin
    if cardinality(p_actions) = 0 then
        return;
    end if;
    if exists (select from unnest(p_actions) a where not coalesce(a ?& array['id', 'action'], false)) then
        raise exception 'an action without "id" or "action" was sent to namespace "%"', headrace.current_namespace(p_namespace)
            using errcode = 'HR300', hint = 'Send objects such as {"id": uuid, "action": "NAME", "payload": ...}.';
    end if;
    perform headrace.wake_queue(p_namespace);
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

-- Calls idle nodes at commit, where there are any. Busy ones find the action by themselves. Index: queue_pkey.
create or replace function headrace.wake_queue(p_namespace text default null) returns void
language plpgsql volatile
as $$
begin
    perform pg_notify('headrace_action', q.namespace)
    from headrace.queue q where q.namespace = headrace.current_namespace(p_namespace) and q.asleep;
end
$$;

-- Sends one action in the caller's transaction and returns its id. Higher priorities are handed out first; p_delay: not before then.
create or replace function headrace.send_action(
    p_action     text,
    p_payload    jsonb default 'null',
    p_key        text default null,
    p_priority   integer default 0,
    p_delay      interval default null,
    p_namespace  text default null,
    p_id         uuid default null,
    p_event_type text default null,
    p_producer   text default null,
    p_cause      jsonb default null
) returns uuid
language plpgsql volatile
as $$
declare
    v_id uuid := coalesce(p_id, headrace.uuid_v7());
begin
    perform headrace.event_within_limits(p_action, p_key, coalesce(p_payload, 'null'), '{}');
    if p_delay < interval '0' then
        raise exception 'an action cannot wait for %', p_delay
            using errcode = 'HR300', hint = 'Give a delay of zero or more.';
    end if;
    perform pgmq.send_batch(headrace.queue_name(p_namespace), array[jsonb_build_object(
        'id', v_id, 'action', p_action, 'payload', coalesce(p_payload, 'null'), 'key', p_key,
        'priority', coalesce(p_priority, 0), 'namespace', headrace.current_namespace(p_namespace), 'event_type', p_event_type,
        'emitted_at', headrace.clock(), 'producer', coalesce(p_producer, nullif(current_setting('headrace.node', true), '')),
        'scheduled_task_id', null, 'cause', coalesce(p_cause, '{}'))],
        null::jsonb[], headrace.clock() + coalesce(p_delay, interval '0'));
    perform headrace.wake_queue(p_namespace);
    return v_id;
end
$$;
