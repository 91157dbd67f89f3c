-- A page of the dead letters of one consumer with one kind of error, by position. %(open)s: only those not yet marked for a redrive.
-- Reads the public views only.
select 'event' as kind, concat_ws('/', t.topic, c.consumer, d.position) as id, d.event_id as original_id, d.type as name, d.key, d.payload,
    false as edited, d.state, d.reason, d.error, d.attempts, d.buried_at
from headrace.dead_letter d
join headrace.consumer c on c.consumer_id = d.consumer_id
join headrace.topic t on t.topic_id = c.topic_id
where t.namespace = headrace.current_namespace(%(namespace)s) and t.topic || '/' || c.consumer = %(source)s
    and (d.state in ('dead', 'behind') or not %(open)s and d.state = 'redrive')
    and d.reason = %(reason)s and d.error_group is not distinct from %(error)s::text
order by d.position
offset %(offset)s limit %(limit)s;
