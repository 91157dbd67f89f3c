-- Events of a range of positions, newest first, with JSON as text so that no digit is lost. Index: log_position backwards.
select l.position, l.partition, l.event_id, l.type, l.key, l.payload::text as payload, l.headers::text as headers, l.emitted_at,
    l.appended_at, l.producer
from headrace.log l
where l.topic_id = %(topic_id)s and l.position >= %(first)s and l.position < %(until)s
    and (%(types)s::text[] is null or l.type = any (%(types)s::text[])) and (%(key)s::text is null or l.key = %(key)s)
order by l.position desc;
