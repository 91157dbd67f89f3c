-- Stages rows of one task's attempt. A row that breaks a limit raises here, before anything is published.
insert into headrace.spark_stage
    (namespace, query, batch, token, place, topic, type, key, payload, headers, event_id, emitted_at, producer, priority)
select headrace.current_namespace(%(namespace)s), %(query)s, %(batch)s, %(token)s, r.place, r.topic, r.type, r.key, r.payload::jsonb,
    coalesce(r.headers::jsonb, '{}'), coalesce(r.event_id::uuid, headrace.uuid_v7()), r.emitted_at, r.producer, coalesce(r.priority, 0)
from unnest(%(place)s::bigint[], %(topic)s::text[], %(type)s::text[], %(key)s::text[], %(payload)s::text[], %(headers)s::text[],
    %(event_id)s::text[], %(emitted_at)s::timestamptz[], %(producer)s::text[], %(priority)s::integer[])
    r (place, topic, type, key, payload, headers, event_id, emitted_at, producer, priority)
where headrace.event_within_limits(r.type, r.key, r.payload::jsonb, coalesce(r.headers::jsonb, '{}'), r.producer)
    and headrace.time_within_limits(r.emitted_at);
