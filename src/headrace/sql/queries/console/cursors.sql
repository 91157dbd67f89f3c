-- The cursors of a namespace's consumers, or of one topic or consumer, with their lag (headrace.cursor_lag: exact up to 100 events of a
-- partition, then an estimate) and whether somebody runs them. Reads the public views only.
with topics as materialized (
    -- The topic's own time: if that is the events', the time of the newest one.
    select t.topic_id, t.topic, t.namespace, t.engine,
        case when t.clock = 'server' then headrace.clock() else h.appended_at end as now_at
    from headrace.topic t
    left join lateral (select h.appended_at from headrace.log_head(t.topic_id) h where t.clock = 'event') h on true
    where t.namespace = headrace.current_namespace(%(namespace)s) and (%(topic)s::text is null or t.topic = %(topic)s)
), running as materialized (
    select n.consumers, n.sequencer from headrace.node_state n
    where n.namespace = headrace.current_namespace(%(namespace)s) and n.state = 'alive'
), consumers as materialized (
    select t.topic_id, t.topic, t.now_at, c.consumer_id, c.consumer,
        case when c.consumer not like 'headrace.%%' or t.engine = 'database' then (
            select count(*) from running n
            where case when c.consumer like 'headrace.%%' then n.sequencer else n.consumers @> array[t.topic || '/' || c.consumer] end)
        end as nodes, p.reason as pause_reason, p.paused_by, p.kind is not null as is_paused
    from topics t
    join headrace.consumer c on c.topic_id = t.topic_id
    left join headrace.pause p on p.namespace = t.namespace and p.kind = 'consumer' and p.name = t.topic || '/' || c.consumer
    where %(consumer)s::text is null or c.consumer = %(consumer)s
)
select c.topic, c.consumer, u.partition, u.position,
    case when c.is_paused then 'paused' when u.state = 'running' and c.nodes = 0 then 'idle' else u.state end as state,
    u.attempts, u.retry_at, u.error, u.traceback, c.nodes, c.pause_reason, c.paused_by, u.moved_at,
    g.events as lag_events, g.is_estimate,
    coalesce(greatest(extract(epoch from c.now_at - g.oldest_at), 0), 0)::double precision as lag_s
from consumers c
join headrace.cursor u on u.consumer_id = c.consumer_id
join headrace.cursor_lag(%(topic)s, %(consumer)s, %(namespace)s) g on g.consumer_id = u.consumer_id and g.partition = u.partition
order by c.topic, c.consumer, u.partition;
