-- Publishes an array of events in the caller's transaction, in order, and returns their ids in the same order.
-- An event is an object: topic and type, optionally payload, key, headers, id, emitted_at, producer.
-- All or nothing: an invalid event raises an error, and none is written. Raises HR101 for an unknown topic; with p_missing_ok it
-- returns no row instead, which leaves the transaction usable. Index: topic_name_unique. Locks nothing.
create or replace function headrace.publish_many(
    p_events jsonb, p_namespace text default null, p_missing_ok boolean default false, p_caller headrace_internal.caller default current_user
) returns setof uuid
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'publish', p_namespace, p_events -> 0 ->> 'topic');
    v_topics    integer[];
begin
    if not headrace_internal.check_events(p_events, v_namespace, p_missing_ok) then
        return;
    end if;
    perform headrace_internal.refuse_reserved_topic(e.event ->> 'topic', p_caller)
    from jsonb_array_elements(p_events) e (event) where e.event ->> 'topic' like 'headrace.%';
    return query
        insert into headrace_internal.outbox (topic_id, event_id, type, key, payload, headers, emitted_at, producer)
        select e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.emitted_at, e.producer
        from (
            select t.topic_id, t.has_inline_rules, coalesce((e.event ->> 'id')::uuid, headrace.uuid_v7()) as event_id,
                e.event ->> 'type' as type, e.event ->> 'key' as key, coalesce(e.event -> 'payload', 'null') as payload,
                coalesce(nullif(e.event -> 'headers', 'null'), '{}') as headers,
                coalesce((e.event ->> 'emitted_at')::timestamptz, headrace.clock()) as emitted_at, e.event ->> 'producer' as producer
            from jsonb_array_elements(p_events) with ordinality e (event, place)
            join headrace_internal.topic t on t.namespace = v_namespace and t.topic = e.event ->> 'topic'
            where headrace.event_within_limits(e.event ->> 'type', e.event ->> 'key', coalesce(e.event -> 'payload', 'null'),
                coalesce(nullif(e.event -> 'headers', 'null'), '{}'), e.event ->> 'producer')
                and headrace.time_within_limits((e.event ->> 'emitted_at')::timestamptz)
                and (not t.checks_payloads or headrace_internal.check_payload(t.namespace, e.event ->> 'type', coalesce(e.event -> 'payload', 'null')))
            -- The outbox numbers rows in the order of the insert, and that number is the producer's order.
            order by e.place) e
        where not e.has_inline_rules or headrace_internal.react_inline(
                e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.emitted_at, e.producer)
        returning event_id;
    select array_agg(distinct t.topic_id) into v_topics
    from jsonb_array_elements(p_events) e (event)
    join headrace_internal.topic t on t.namespace = v_namespace and t.topic = e.event ->> 'topic';
    perform headrace_internal.wake_topics(v_topics);
end
$$;
