-- Publishes the event of a tick that the caller has just recorded.
create or replace function headrace_internal.publish_tick(p_schedule_id integer, p_tick_at timestamptz) returns uuid
language sql volatile
as $$
    select headrace.publish(t.topic, s.type, s.payload, s.key,
        s.headers || headrace_internal.schedule_headers(s.schedule_id, s.schedule, p_tick_at),
        headrace_internal.schedule_event_id(s.uid, p_tick_at), p_producer => 'schedule ' || s.schedule, p_namespace => t.namespace)
    from headrace_internal.schedule s
    join headrace_internal.topic t on t.topic_id = s.topic_id
    where s.schedule_id = p_schedule_id
$$;
