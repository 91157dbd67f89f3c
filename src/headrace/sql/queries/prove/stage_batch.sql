-- Stages the rows of one batch, as a task of Spark's sink does.
insert into headrace_internal.spark_stage (namespace, query, batch, token, place, topic, type, key, payload, headers, event_id, producer, priority)
select headrace.current_namespace(), %(query)s, %(batch)s, %(token)s, r.place, %(topic)s, r.type, r.key, r.payload::jsonb, '{}',
    headrace.uuid_v7(), 'sink', 0
from unnest(%(types)s::text[], %(keys)s::text[], %(payloads)s::text[]) with ordinality r (type, key, payload, place);
