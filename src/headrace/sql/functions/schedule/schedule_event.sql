-- The headers a scheduled event carries beside its own.
create or replace function headrace.schedule_headers(p_schedule_id integer, p_schedule text, p_tick_at timestamptz) returns jsonb
language sql stable parallel safe
-- The tick's text does not hang on the session's time zone.
set timezone = 'UTC'
as $$
    select jsonb_build_object('scheduled_task_id', p_schedule_id, 'schedule', p_schedule, 'scheduled_at', p_tick_at)
$$;

-- The id of a tick's event: a uuid (version 8) out of schedule and moment. Whoever fires the tick makes the same one, so
-- the log would take a second event for a repetition.
create or replace function headrace.schedule_event_id(p_uid uuid, p_tick_at timestamptz) returns uuid
language sql immutable strict parallel safe
as $$
    select encode(set_bit(set_bit(set_byte(h.hash, 6, get_byte(h.hash, 6) & 15 | 128), 71, 1), 70, 0), 'hex')::uuid
    from (
        select substring(sha256(uuid_send(p_uid) || int8send((extract(epoch from p_tick_at) * 1000000)::bigint)) for 16)
    ) h (hash)
$$;

-- Publishes the event of one tick, which the caller has just recorded.
create or replace function headrace.publish_tick(p_schedule_id integer, p_tick_at timestamptz) returns uuid
language sql volatile
as $$
    select headrace.publish(t.topic, s.type, s.payload, s.key,
        s.headers || headrace.schedule_headers(s.schedule_id, s.schedule, p_tick_at),
        headrace.schedule_event_id(s.uid, p_tick_at), p_producer => 'schedule ' || s.schedule, p_namespace => t.namespace)
    from headrace.schedule s
    join headrace.topic t on t.topic_id = s.topic_id
    where s.schedule_id = p_schedule_id
$$;
