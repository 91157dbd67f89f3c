-- name: appended_at
-- Selects the log's time of the event at a position.
select l.appended_at from headrace.read_log(%(topic_id)s, %(position)s - 1, 1) l where l.position = %(position)s;

-- name: arrow_rows
-- Selects a range of a topic's positions, filtered, with the wanted columns. The condition is printed from our own tree. Constants stand in
-- the text because only a statement without parameters uses binary COPY; a filter that is null folds away.
-- Locks: access share. Index: log_position.
select {columns}
from (
    select {stored l}{extracts}
    from headrace.log l
    where l.topic_id = {topic_id} and l.position >= {first} and l.position < {until}
        and ({types}::text[] is null or l.type = any ({types}::text[]))
        and ({keys}::text[] is null or l.key = any ({keys}::text[]))
        and ({from_time}::timestamptz is null or l.emitted_at >= {from_time}::timestamptz)
        and ({to_time}::timestamptz is null or l.emitted_at < {to_time}::timestamptz)
        and {condition}
) e

-- name: dropped_to
-- Selects the last position that retention has dropped from a topic's log. Index: topic_pkey.
select t.dropped_to from headrace.topic t where t.topic_id = {topic_id}

-- name: lock_log
-- Keeps the time partitions of a topic from being dropped until the transaction ends. Reads nothing. Locks: log, access share.
select l.position from headrace.log l where l.topic_id = {topic_id} limit 0

-- name: read
-- Events of a topic after a position, in order.
select {event l}
from headrace.read_log(headrace.topic_id(%(topic)s, %(namespace)s), %(after)s, %(limit)s) l
order by l.position;

-- name: sequence_step
-- Moves committed events into the log and returns those of some topics. Locks and indexes: see headrace_internal.sequence_step.
select {event e}
from headrace_internal.sequence_step(%s::integer, %s::boolean, %s::integer[], %s::integer[], %s::bigint[], %s::double precision) e;

-- name: topics
-- Selects the topics of a namespace, or one of them, with the end of the log, the size of the outbox and the number of consumers.
-- Indexes: topic_name_unique, log_position backwards, outbox_order.
select t.topic_id, t.namespace, t.topic, t.partitions, t.time_partition, t.clock, t.retention, t.engine, t.archive,
    t.dropped_to + 1 as first_position,
    coalesce(h.position, t.dropped_to) as last_position,
    h.appended_at as last_appended_at,
    (select count(*) from headrace.outbox o where o.topic_id = t.topic_id) as waiting,
    (select count(*) from headrace.consumer c where c.topic_id = t.topic_id) as consumers
from headrace.topic t
left join lateral headrace.log_head(t.topic_id) h on true
where t.namespace = headrace.current_namespace(%(namespace)s)
    and (%(topic)s::text is null or t.topic = %(topic)s)
order by t.topic;
