-- name: lag
-- Lag per partition, with the state: idle if no live node runs the consumer. For all consumers of a namespace or only those of a
-- topic or a name.
select g.topic, g.consumer, g.partition, g.position,
    case when g.state = 'running' and g.nodes = 0 then 'idle' else g.state end as state, g.attempts, g.retry_at, g.error, g.traceback,
    g.lag_events, g.lag_s, g.nodes, g.session_limit_s
from headrace.consumer_lag g
where g.namespace = headrace.current_namespace(%(namespace)s)
    and (%(topic)s::text is null or g.topic = %(topic)s)
    and (%(consumer)s::text is null or g.consumer = %(consumer)s)
order by g.topic, g.consumer, g.partition;

-- name: new_consumer
-- Selects how many events are behind a consumer that was just created, and which other consumers of its topic no live node runs.
select coalesce(sum(c.lag_events) filter (where c.consumer = %(consumer)s), 0)::bigint as behind,
    array_agg(distinct c.consumer order by c.consumer) filter (
        where c.consumer <> %(consumer)s and c.nodes = 0 and c.consumer not like 'headrace.%%' and c.consumer not like 'relay.%%') as idle
from headrace.consumer_lag c
where c.namespace = headrace.current_namespace(%(namespace)s) and c.topic = %(topic)s;

-- name: read_dead_letter
-- Selects a dead letter as an event, with its payload as it was edited.
-- Operators are qualified: this runs on a handler's connection, under whatever search_path its database has.
-- Index: dead_letter_pkey. The log may have dropped the event.
select d.position, d.partition, d.event_id, t.topic, d.type, d.key, coalesce(d.edited_payload, d.payload), d.headers,
    coalesce(l.emitted_at, d.buried_at), coalesce(l.appended_at, d.buried_at), l.producer
from headrace.event_dead_letter d
join headrace.consumer c on c.consumer_id operator(pg_catalog.=) d.consumer_id
join headrace.topic t on t.topic_id operator(pg_catalog.=) c.topic_id
left join lateral headrace.read_log(t.topic_id, d.position operator(pg_catalog.-) 1, 1) l on l.position operator(pg_catalog.=) d.position
where d.dead_letter_id operator(pg_catalog.=) %(dead_letter_id)s;

-- name: settings
-- Selects the settings of one consumer, with what became of its condition. Raises HR101 for an unknown topic. Index: consumer_name_unique.
select t.namespace, t.topic, c.consumer, c.ordered_by, c.condition, c.condition_status, c.condition_error, c.attempts_max, c.backoff_s,
    c.backoff_max_s, c.when_exhausted, c.key_order, c.created_at
from headrace.consumer c
join headrace.topic t on t.topic_id = c.topic_id
where c.topic_id = headrace.topic_id(%(topic)s, %(namespace)s) and c.consumer = %(consumer)s;
