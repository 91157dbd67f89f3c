-- Puts messages into a queue of pgmq, in order, due at a moment, and returns their ids. As pgmq.send_batch does, but the statement for the
-- queue of the default namespace, which most databases have alone, is planned once per session.
create or replace function headrace_internal.enqueue(p_queue text, p_messages jsonb[], p_due timestamptz) returns setof bigint
language plpgsql volatile
as $$
begin
    if p_queue = 'hr_default' then
        return query insert into pgmq.q_hr_default (vt, message) select p_due, m.message from unnest(p_messages) m (message) returning msg_id;
    else
        return query execute format('insert into pgmq.%I (vt, message) select $1, m.message from unnest($2) m (message) returning msg_id',
            'q_' || p_queue) using p_due, p_messages;
    end if;
end
$$;

-- Claims a unique key for an action that is about to be sent: null, or the id of the earlier action that holds the key. That one is in
-- the queue (waiting or in flight), or its period is not over. Concurrent senders wait for each other at the row, so exactly one sends.
-- Locks: the row of the key. Indexes: unique_action_pkey, q_<queue>_pkey.
-- Calls: queue_of.
create or replace function headrace_internal.claim_unique_key(
    p_namespace text, p_action text, p_unique_key text, p_unique_for interval, p_id uuid
) returns uuid
language plpgsql volatile
as $$
declare
    v_until   timestamptz := headrace.clock() + coalesce(p_unique_for, interval '0');
    v_holder  record;
    v_is_held boolean;
begin
    if p_unique_key is null or char_length(p_unique_key) not between 1 and 500 then
        raise exception 'the unique key of an action has 1 to 500 characters, not %', coalesce(char_length(p_unique_key), 0)
            using errcode = 'HR300', hint = 'Give p_unique_key together with p_unique_for; for a longer key, use its hash.';
    end if;
    if p_unique_for < interval '0' or p_unique_for > interval '1 year' then
        raise exception 'an action cannot be unique for %', p_unique_for
            using errcode = 'HR300', hint = 'Give a period from zero to one year.';
    end if;
    -- The update changes nothing, but locks the row of an earlier sender, after its transaction has ended.
    insert into headrace_internal.unique_action as u (namespace, action, unique_key, action_id, unique_until)
    values (p_namespace, p_action, p_unique_key, p_id, v_until)
    on conflict on constraint unique_action_pkey do update set action_id = u.action_id
    returning u.action_id, u.msg_id, u.unique_until into v_holder;
    if v_holder.msg_id is null then
        return null;
    end if;
    execute format('select exists (select from pgmq.%I q where q.msg_id = $1)', 'q_' || headrace_internal.queue_of(p_namespace))
    into v_is_held using v_holder.msg_id;
    if v_is_held or v_holder.unique_until > headrace.clock() then
        return v_holder.action_id;
    end if;
    update headrace_internal.unique_action u set action_id = p_id, msg_id = null, unique_until = v_until
    where u.namespace = p_namespace and u.action = p_action and u.unique_key = p_unique_key;
    return null;
end
$$;

-- Deletes unique keys whose period is over and whose action has left the queue; returns how many, at most 10000 per namespace.
-- Locks: the rows, skip locked: a sender holds them. Indexes: unique_action_until, q_<queue>_pkey.
-- Calls: queue_of.
create or replace function headrace_internal.trim_unique_actions() returns integer
language plpgsql volatile
as $$
declare
    v_namespace text;
    v_piece     integer;
    v_trimmed   integer := 0;
begin
    for v_namespace in select distinct u.namespace from headrace_internal.unique_action u where u.unique_until <= headrace.clock() loop
        execute format($sql$
            delete from headrace_internal.unique_action u where u.ctid = any (array(
                select o.ctid from headrace_internal.unique_action o
                where o.unique_until <= headrace.clock() and o.namespace = $1
                    and not exists (select from pgmq.%I q where q.msg_id = o.msg_id)
                order by o.unique_until limit 10000 for update skip locked))
            $sql$, 'q_' || headrace_internal.queue_of(v_namespace)) using v_namespace;
        get diagnostics v_piece = row_count;
        v_trimmed := v_trimmed + v_piece;
    end loop;
    return v_trimmed;
end
$$;

-- Sends one action in the caller's transaction and returns its id. Higher priorities are claimed first; p_delay postpones it.
-- With p_unique_key: while an earlier action of the same name and unique key is in the queue, or was sent less than its p_unique_for
-- ago, nothing is sent, and the id of that action is returned. p_headers: of these the trace context (traceparent, tracestate) is kept.
-- Locks: the row of the unique key, until the transaction ends; a second sender waits for the first. Index: unique_action_pkey.
-- Calls: uuid_v7, event_within_limits, trace_headers, claim_unique_key, enqueue, queue_of, wake_queue.
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
    p_cause      jsonb default null,
    p_unique_key text default null,
    p_unique_for interval default null,
    p_headers    jsonb default null,
    p_caller     headrace_internal.caller default current_user
) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'any', p_namespace);
    v_id        uuid := coalesce(p_id, headrace.uuid_v7());
    v_earlier   uuid;
    v_message   jsonb;
    v_msg_id    bigint;
begin
    perform headrace.event_within_limits(p_action, p_key, coalesce(p_payload, 'null'), '{}');
    -- An event type may have spaces, the name of an action may not.
    if strpos(p_action, ' ') > 0 then
        raise exception 'action "%" is not a name', left(p_action, 200)
            using errcode = 'HR304', hint = 'Use 1 to 200 letters, digits and _ . : / - and start with a letter or _.';
    end if;
    if p_delay < interval '0' then
        raise exception 'the delay of an action cannot be %', p_delay
            using errcode = 'HR300', hint = 'Give a delay of zero or more.';
    end if;
    v_message := jsonb_build_object(
        'id', v_id, 'action', p_action, 'payload', coalesce(p_payload, 'null'), 'key', p_key,
        'priority', coalesce(p_priority, 0), 'namespace', v_namespace, 'event_type', p_event_type,
        'emitted_at', headrace.clock(), 'producer', coalesce(p_producer, nullif(current_setting('headrace.node', true), '')),
        'scheduled_task_id', null, 'cause', coalesce(p_cause, '{}'));
    if headrace_internal.trace_headers(p_headers) is not null then
        v_message := v_message || jsonb_build_object('headers', headrace_internal.trace_headers(p_headers));
    end if;
    if p_unique_key is not null or p_unique_for is not null then
        v_earlier := headrace_internal.claim_unique_key(v_namespace, p_action, p_unique_key, p_unique_for, v_id);
        if v_earlier is not null then
            return v_earlier;
        end if;
        v_message := v_message || jsonb_build_object('unique_key', p_unique_key);
    end if;
    select s into v_msg_id from headrace_internal.enqueue(headrace_internal.queue_of(v_namespace), array[v_message],
        headrace.clock() + coalesce(p_delay, interval '0')) s;
    if p_unique_key is not null then
        update headrace_internal.unique_action u set msg_id = v_msg_id
        where u.namespace = v_namespace and u.action = p_action and u.unique_key = p_unique_key;
    end if;
    perform headrace.wake_queue(v_namespace);
    return v_id;
end
$$;

-- Sends actions to a namespace's queue, in order, in the caller's transaction, and returns their message ids in the same order.
-- An action is an object with at least "id" (a uuid) and "action" (its name); "payload", "key", "priority", "namespace",
-- "event_type", "emitted_at", "producer", "scheduled_task_id", "cause" and "headers" (the trace context) are optional. p_delays: seconds
-- to wait, one per action.
-- Locks nothing. One insert for all actions of one delay.
-- Calls: queue_of, wake_queue, enqueue.
create or replace function headrace.send_actions(
    p_namespace text, p_actions jsonb[], p_delays integer[] default null, p_caller headrace_internal.caller default current_user
)
returns setof bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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
        return query select s from headrace_internal.enqueue(v_queue, p_actions, headrace.clock()) s;
        return;
    end if;
    return query
        with due as (
            select coalesce(d.delay_s, 0) as delay_s, array_agg(a.action order by a.number) as actions,
                array_agg(a.number order by a.number) as numbers
            from unnest(p_actions) with ordinality a (action, number)
            left join unnest(p_delays) with ordinality d (delay_s, number) on d.number = a.number
            group by coalesce(d.delay_s, 0)
        ), sent as materialized (
            select u.number, u.msg_id
            from due,
            lateral rows from (
                unnest(due.numbers),
                headrace_internal.enqueue(v_queue, due.actions, headrace.clock() + make_interval(secs => due.delay_s))
            ) u (number, msg_id)
        )
        select s.msg_id from sent s order by s.number;
end
$$;
