-- name: claim_at
-- Claims partitions whose events this node has in hand. Locks and indexes: see headrace.claim_at.
select {event e}
from headrace.claim_at(%s::bigint, %s::integer[], %s::bigint[], %s::integer, %s::timestamptz) e;

-- name: claim_events
-- Claims a batch. Locks and indexes: see headrace.claim_events.
select {event e}
from headrace.claim_events(%s::bigint, %s::integer, %s::integer, %s::float8, %s::integer, %s::boolean) e;

-- name: event_texts
-- Selects the events of a statement with JSON as text: how a driver decodes jsonb is the application's choice.
select {event e as text} from (/* statement */) e;

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

-- name: redriven_event
-- Selects the event of a dead letter as its handler gets it again. See headrace.redriven_event.
select {event e} from headrace.redriven_event(%(dead_letter_id)s) e;

-- name: settings
-- Selects the settings of one consumer, with what became of its condition. Raises HR101 for an unknown topic. Index: consumer_name_unique.
select t.namespace, t.topic, c.consumer, c.ordered_by, c.condition, c.condition_status, c.condition_error, c.attempts_max, c.backoff_s,
    c.backoff_max_s, c.when_exhausted, c.key_order, c.created_at
from headrace.consumer c
join headrace.topic t on t.topic_id = c.topic_id
where c.topic_id = headrace.topic_id(%(topic)s, %(namespace)s) and c.consumer = %(consumer)s;
