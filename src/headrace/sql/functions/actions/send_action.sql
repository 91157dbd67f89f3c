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
    perform headrace_internal.event_within_limits(p_action, p_key, coalesce(p_payload, 'null'), '{}');
    if p_delay < interval '0' then
        raise exception 'an action cannot wait for %', p_delay
            using errcode = 'HR300', hint = 'Give a delay of zero or more.';
    end if;
    perform pgmq.send_batch(headrace_internal.queue_name(p_namespace), array[jsonb_build_object(
        'id', v_id, 'action', p_action, 'payload', coalesce(p_payload, 'null'), 'key', p_key,
        'priority', coalesce(p_priority, 0), 'namespace', headrace.current_namespace(p_namespace), 'event_type', p_event_type,
        'emitted_at', headrace.clock(), 'producer', coalesce(p_producer, nullif(current_setting('headrace.node', true), '')),
        'scheduled_task_id', null, 'cause', coalesce(p_cause, '{}'))],
        null::jsonb[], headrace.clock() + coalesce(p_delay, interval '0'));
    perform headrace_internal.wake_queue(p_namespace);
    return v_id;
end
$$;
