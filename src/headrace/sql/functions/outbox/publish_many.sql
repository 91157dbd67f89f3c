-- Publishes an array of events in the caller's transaction, in its order, and returns their ids in the same order.
-- An event is an object: topic and type, and as wanted payload, key, headers, id, emitted_at, producer.
-- All or nothing: an event that breaks a rule raises, and none is written. Index: topic_name_unique. Locks nothing.
create or replace function headrace.publish_many(p_events jsonb, p_namespace text default null) returns setof uuid
language plpgsql volatile
as $$
declare
    v_topics integer[];
begin
    perform headrace.check_events(p_events, p_namespace);
    return query
        insert into headrace.outbox (topic_id, event_id, type, key, payload, headers, emitted_at, producer)
        select t.topic_id, coalesce((e.event ->> 'id')::uuid, headrace.uuid_v7()), e.event ->> 'type', e.event ->> 'key',
            coalesce(e.event -> 'payload', 'null'), coalesce(nullif(e.event -> 'headers', 'null'), '{}'),
            coalesce((e.event ->> 'emitted_at')::timestamptz, headrace.clock()), e.event ->> 'producer'
        from jsonb_array_elements(p_events) with ordinality e (event, place)
        join headrace.topic t on t.namespace = headrace.current_namespace(p_namespace) and t.topic = e.event ->> 'topic'
        where headrace.event_within_limits(e.event ->> 'type', e.event ->> 'key', coalesce(e.event -> 'payload', 'null'),
            coalesce(nullif(e.event -> 'headers', 'null'), '{}'), e.event ->> 'producer')
            and headrace.time_within_limits((e.event ->> 'emitted_at')::timestamptz)
        -- The outbox numbers rows as they come, and that number is the producer's order.
        order by e.place
        returning event_id;
    select array_agg(distinct t.topic_id) into v_topics
    from jsonb_array_elements(p_events) e (event)
    join headrace.topic t on t.namespace = headrace.current_namespace(p_namespace) and t.topic = e.event ->> 'topic';
    perform headrace.wake_topics(v_topics);
end
$$;

-- Refuses what is not an array of events with known members and topics.
create or replace function headrace.check_events(p_events jsonb, p_namespace text) returns void
language plpgsql stable
as $$
declare
    v_bad text;
begin
    if jsonb_typeof(p_events) is distinct from 'array' then
        raise exception 'events are %, not an array', coalesce(jsonb_typeof(p_events), 'missing')
            using errcode = 'HR300', hint = 'Pass a JSON array of objects with topic, type and payload.';
    end if;
    select case when m.member is null then format('an event is %s, not an object', jsonb_typeof(e.event))
        else format('an event has an unknown member "%s"', m.member) end into v_bad
    from jsonb_array_elements(p_events) e (event)
    left join lateral jsonb_object_keys(case when jsonb_typeof(e.event) = 'object' then e.event else '{}' end) m (member) on true
    where jsonb_typeof(e.event) <> 'object'
        or m.member not in ('topic', 'type', 'payload', 'key', 'headers', 'id', 'emitted_at', 'producer')
    limit 1;
    if found then
        raise exception '%', v_bad
            using errcode = 'HR300',
                hint = 'Its members are topic, type, payload, key, headers, id, emitted_at and producer.';
    end if;
    select coalesce(e.event ->> 'topic', '') into v_bad
    from jsonb_array_elements(p_events) e (event)
    left join headrace.topic t on t.namespace = headrace.current_namespace(p_namespace) and t.topic = e.event ->> 'topic'
    where t.topic_id is null
    limit 1;
    if found then
        perform headrace.raise_unknown_topic(v_bad, p_namespace);
    end if;
end
$$;
