-- Sends one action in the caller's transaction and returns its id. Higher priorities are claimed first; p_delay postpones it.
-- With p_unique_key: while an earlier action of the same name and unique key is in the queue, or was sent less than its p_unique_for
-- ago, nothing is sent, and the id of that action is returned. p_headers: of these the trace context (traceparent, tracestate) is kept.
-- Locks: the row of the unique key, until the transaction ends; a second sender waits for the first. Index: unique_action_pkey.
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
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
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
    select s into v_msg_id from pgmq.send_batch(headrace_internal.queue_of(v_namespace), array[v_message],
        null::jsonb[], headrace.clock() + coalesce(p_delay, interval '0')) s;
    if p_unique_key is not null then
        update headrace_internal.unique_action u set msg_id = v_msg_id
        where u.namespace = v_namespace and u.action = p_action and u.unique_key = p_unique_key;
    end if;
    perform headrace.wake_queue(v_namespace);
    return v_id;
end
$$;
