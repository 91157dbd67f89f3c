-- A range of a topic's positions, filtered, with the wanted columns. The condition is printed from our own tree. Constants stand in
-- the text because only a statement without parameters uses binary COPY; a filter that is null folds away.
-- Locks: access share. Index: log_position.
select {columns}
from (
    select l.key, l.type, l.payload, l.partition, l.position, l.emitted_at, l.event_id, l.headers, l.appended_at,
        l.producer{extracts}
    from headrace.log l
    where l.topic_id = {topic_id} and l.position >= {first} and l.position < {until}
        and ({types}::text[] is null or l.type = any ({types}::text[]))
        and ({keys}::text[] is null or l.key = any ({keys}::text[]))
        and ({from_time}::timestamptz is null or l.emitted_at >= {from_time}::timestamptz)
        and ({to_time}::timestamptz is null or l.emitted_at < {to_time}::timestamptz)
        and {condition}
) e
