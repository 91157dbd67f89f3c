-- Events of the log at some positions, with JSON as text. Index: log_position.
select l.position, l.event_id, l.type, l.key, l.payload::text as payload, l.headers::text as headers, l.emitted_at, l.appended_at,
    l.producer
from headrace.log l
where l.topic_id = %(topic_id)s and l.position = any (%(positions)s::bigint[]);
