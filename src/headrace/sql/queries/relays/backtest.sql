-- The events of a range for which a relay's condition, printed from its tree, is true.
select l.position, l.partition, l.event_id, %(topic)s::text as topic, l.type, l.key, l.payload, l.headers, l.emitted_at, l.appended_at, l.producer
from headrace.log l
cross join lateral (select /* condition */ true as is_wanted) m
where l.topic_id = headrace.topic_id(%(topic)s, %(namespace)s) and l.position > %(after)s and l.position <= %(upto)s and m.is_wanted
order by l.position;
