-- Events of a topic after a position, in order.
select l.position, l.partition, l.event_id, l.topic, l.type, l.key, l.payload, l.headers, l.emitted_at, l.appended_at, l.producer
from headrace.read_log(headrace.topic_id(%(topic)s, %(namespace)s), %(after)s, %(limit)s) l
order by l.position;
