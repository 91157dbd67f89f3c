-- The rows of one file, in order. Constants stand in the text, because only a statement without parameters goes by binary COPY.
-- Index: log_position.
select l.position, l.appended_at, l.emitted_at, l.partition, l.event_id::text as event_id, l.type, l.key, l.payload, l.headers,
    l.producer
from headrace_internal.log l
where l.topic_id = {topic_id} and l.appended_at >= {first_at}::timestamptz and l.appended_at <= {last_at}::timestamptz
    and l.position >= {first} and l.position <= {last}
order by l.position
