-- Sends one action in the caller's transaction and returns its id. Higher priorities are claimed first; p_delay postpones it.
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
    p_caller     headrace_internal.caller default current_user
) returns uuid
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'any', p_namespace);
    v_id        uuid := coalesce(p_id, headrace.uuid_v7());
begin
    perform headrace.event_within_limits(p_action, p_key, coalesce(p_payload, 'null'), '{}');
    if p_delay < interval '0' then
        raise exception 'the delay of an action cannot be %', p_delay
            using errcode = 'HR300', hint = 'Give a delay of zero or more.';
    end if;
    perform pgmq.send_batch(headrace_internal.queue_of(v_namespace), array[jsonb_build_object(
        'id', v_id, 'action', p_action, 'payload', coalesce(p_payload, 'null'), 'key', p_key,
        'priority', coalesce(p_priority, 0), 'namespace', v_namespace, 'event_type', p_event_type,
        'emitted_at', headrace.clock(), 'producer', coalesce(p_producer, nullif(current_setting('headrace.node', true), '')),
        'scheduled_task_id', null, 'cause', coalesce(p_cause, '{}'))],
        null::jsonb[], headrace.clock() + coalesce(p_delay, interval '0'));
    perform headrace.wake_queue(v_namespace);
    return v_id;
end
$$;
