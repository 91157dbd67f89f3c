-- Dead letters of consumers, by position: of a namespace, a topic, a consumer, or one position; where asked also those that
-- are redriven or discarded.
select 'event' as kind, concat_ws('/', t.topic, c.consumer, d.position) as id, t.namespace, t.topic || '/' || c.consumer as source,
    d.event_id as original_id, d.type as name, d.key, coalesce(d.edited_payload, d.payload) as payload,
    d.edited_payload is not null as edited, d.payload as original_payload, d.state,
    d.reason, d.error, d.error_group, d.traceback, d.attempts, d.buried_at,
    null::timestamptz as redriven_at, null::jsonb as envelope, d.partition, d.position, d.headers
from headrace.dead_letter d
join headrace.consumer c on c.consumer_id = d.consumer_id
join headrace.topic t on t.topic_id = c.topic_id
where t.namespace = headrace.current_namespace(%(namespace)s)
    and (%(topic)s::text is null or t.topic = %(topic)s)
    and (%(consumer)s::text is null or c.consumer = %(consumer)s)
    and (%(position)s::bigint is null or d.position = %(position)s)
    and (%(ended)s or d.state in ('dead', 'behind', 'redrive'))
order by t.topic, c.consumer, d.position
limit %(limit)s;
