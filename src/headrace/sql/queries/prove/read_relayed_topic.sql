-- What a relay has published in another headrace, in the order of its log. The payloads have the place in the first log.
-- Index: log (topic_id, position).
select (l.payload ->> 'partition')::int, (l.payload ->> 'position')::bigint, l.event_id::text
from headrace.log l
join headrace.topic t on t.topic_id = l.topic_id
where t.topic = %(topic)s
order by l.position;
