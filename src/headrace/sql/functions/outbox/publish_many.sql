-- Publishes an array of events in the caller's transaction, in its order, and returns their ids in the same order.
-- An event is an object: topic and type, and as wanted payload, key, headers, id, emitted_at, producer.
-- All or nothing: an event that breaks a rule raises, and none is written. Index: topic_name_unique. Locks nothing.
create or replace function headrace.publish_many(p_events jsonb, p_namespace text default null) returns setof uuid
language plpgsql volatile
as $$
declare
    v_topics integer[];
begin
    perform headrace_internal.check_events(p_events, p_namespace);
    return query
        insert into headrace_internal.outbox (topic_id, event_id, type, key, payload, headers, emitted_at, producer)
        select t.topic_id, coalesce((e.event ->> 'id')::uuid, headrace.uuid_v7()), e.event ->> 'type', e.event ->> 'key',
            coalesce(e.event -> 'payload', 'null'), coalesce(nullif(e.event -> 'headers', 'null'), '{}'),
            coalesce((e.event ->> 'emitted_at')::timestamptz, headrace.clock()), e.event ->> 'producer'
        from jsonb_array_elements(p_events) with ordinality e (event, place)
        join headrace.topic t on t.namespace = headrace.current_namespace(p_namespace) and t.topic = e.event ->> 'topic'
        where headrace_internal.event_within_limits(e.event ->> 'type', e.event ->> 'key', coalesce(e.event -> 'payload', 'null'),
            coalesce(nullif(e.event -> 'headers', 'null'), '{}'), e.event ->> 'producer')
            and headrace_internal.time_within_limits((e.event ->> 'emitted_at')::timestamptz)
        -- The outbox numbers rows as they come, and that number is the producer's order.
        order by e.place
        returning event_id;
    select array_agg(distinct t.topic_id) into v_topics
    from jsonb_array_elements(p_events) e (event)
    join headrace.topic t on t.namespace = headrace.current_namespace(p_namespace) and t.topic = e.event ->> 'topic';
    perform headrace_internal.wake_topics(v_topics);
end
$$;
