-- Publishes one event in the caller's transaction and returns its id.
-- Locks nothing. Index: topic_name_unique. The same event id twice is one event: the sequencer drops the second.
-- One statement, because every further one costs a snapshot; the long condition clears small, ordinary events without
-- a call (256 bytes hold neither 129 levels nor 309 digits).
create or replace function headrace.publish(
    p_topic      text,
    p_type       text,
    p_payload    jsonb,
    p_key        text default null,
    p_headers    jsonb default '{}',
    p_event_id   uuid default null,
    p_emitted_at timestamptz default null,
    p_producer   text default null,
    p_namespace  text default null
) returns uuid
language plpgsql volatile
as $$
declare
    v_event_id uuid;
begin
    insert into headrace.outbox (topic_id, event_id, type, key, payload, headers, emitted_at, producer)
    select t.topic_id, coalesce(p_event_id, headrace.uuid_v7()), p_type, p_key, p_payload, coalesce(p_headers, '{}'),
        coalesce(p_emitted_at, headrace.clock()), p_producer
    from headrace.topic t
    where t.namespace = headrace.current_namespace(p_namespace) and t.topic = p_topic
        and ((octet_length(p_payload::text) <= 256 and p_headers = '{}'
                and octet_length(p_type) <= 200 and p_type ~ '^[A-Za-z_][A-Za-z0-9_.:/-]*$'
                and (p_key is null or octet_length(p_key) between 1 and 1024)
                and (p_producer is null or octet_length(p_producer) <= 1024))
            or headrace.event_within_limits(p_type, p_key, p_payload, p_headers, p_producer))
        and (not t.asleep or headrace.wake_sequencer())
    returning event_id into v_event_id;
    if v_event_id is null then
        perform headrace.raise_unknown_topic(p_topic, p_namespace);
    end if;
    return v_event_id;
end
$$;
