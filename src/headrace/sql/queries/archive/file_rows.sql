-- The rows of one file, in order. Values are written into the text, because ADBC uses binary COPY only without parameters.
-- Index: log_position.
select l.position, l.appended_at, l.emitted_at, l.partition, l.event_id::text as event_id, l.type, l.key, l.payload, l.headers,
    l.producer
from headrace.log l
where l.topic_id = {topic_id} and l.appended_at >= {first_at}::timestamptz and l.appended_at <= {last_at}::timestamptz
    and l.position >= {first} and l.position <= {last}
order by l.position
