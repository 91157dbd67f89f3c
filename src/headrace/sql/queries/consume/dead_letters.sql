-- Dead letters of the consumers of a namespace, or of those named, by position.
select t.topic, c.consumer, d.partition, d.position, d.event_id, d.type, d.key, d.payload, d.headers,
    d.state, d.reason, d.error, d.attempts, d.buried_at
from headrace_internal.dead_letter d
join headrace_internal.consumer c on c.consumer_id = d.consumer_id
join headrace.topic t on t.topic_id = c.topic_id
where t.namespace = headrace.current_namespace(%(namespace)s)
    and (%(topic)s::text is null or t.topic = %(topic)s)
    and (%(consumer)s::text is null or c.consumer = %(consumer)s)
    and (%(ended)s or d.state in ('dead', 'behind', 'redrive'))
order by t.topic, c.consumer, d.position
limit %(limit)s;
