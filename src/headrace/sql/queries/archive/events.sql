-- Events of a range of the log, in order, with JSON as text. Index: log_position.
select l.position, l.event_id, l.type, l.key, l.payload::text as payload, l.headers::text as headers, l.emitted_at, l.appended_at,
    l.producer
from headrace.log l
where l.topic_id = %(topic_id)s and l.position >= %(first)s and l.position < %(until)s
    and (%(types)s::text[] is null or l.type = any (%(types)s::text[]))
    and (%(keys)s::text[] is null or l.key = any (%(keys)s::text[]))
order by l.position
limit %(limit)s;
