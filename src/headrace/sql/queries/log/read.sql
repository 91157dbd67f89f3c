-- Events of a topic after a position, in order. Index: log_position.
select l.position, l.partition, l.event_id, t.topic, l.type, l.key, l.payload, l.headers, l.emitted_at, l.appended_at, l.producer
from headrace.topic t
join headrace.log l on l.topic_id = t.topic_id
where t.topic_id = headrace.topic_id(%(topic)s, %(namespace)s) and l.position > %(after)s
order by l.position
limit %(limit)s;
