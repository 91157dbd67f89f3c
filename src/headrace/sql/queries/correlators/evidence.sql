-- The events at some positions of a topic that are still in the log. Index: log_position.
select l.position, l.type, l.key, l.emitted_at, l.payload
from headrace.log l
where l.topic_id = headrace.topic_id(%(topic)s, %(namespace)s) and l.position = any (%(positions)s::bigint[])
order by l.position;
