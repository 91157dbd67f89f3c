-- The cursors of a namespace's consumers, or of one topic or consumer, with their lag and whether somebody runs them. Up to 1 000 events
-- of a partition are counted; beyond that the lag is estimated from positions, as if the events were spread evenly, so that a page costs
-- the same whatever the log holds. The lag of a cursor over the whole topic is a difference of positions, and always exact.
-- Reads the public views only. Indexes: log_partition, log_position.
with topics as materialized (
    select t.topic_id, t.topic, t.namespace, t.partitions, t.engine, coalesce(h.position, t.dropped_to) as head
    from headrace.topic t
    left join lateral headrace.log_head(t.topic_id) h on true
    where t.namespace = headrace.current_namespace(%(namespace)s) and (%(topic)s::text is null or t.topic = %(topic)s)
), running as materialized (
    select n.consumers, n.sequencer from headrace.node_state n
    where n.namespace = headrace.current_namespace(%(namespace)s) and n.state = 'alive'
), consumers as materialized (
    select t.topic_id, t.topic, t.partitions, t.head, c.consumer_id, c.consumer,
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
    case when u.partition = -1 then greatest(c.head - u.position, 0) when b.events <= 1000 then b.events
        else greatest((c.head - u.position) / c.partitions, 1000) end as lag_events,
    u.partition <> -1 and b.events > 1000 as is_estimate,
    coalesce(greatest(extract(epoch from headrace.clock() - b.oldest_at), 0), 0)::double precision as lag_s
from consumers c
join headrace.cursor u on u.consumer_id = c.consumer_id
left join lateral (
    select count(*) as events, min(l.appended_at) as oldest_at
    from (
        -- Two branches, of which one runs: an "or" could use neither index. The comparison of rows leaves the planner no other index
        -- than log_partition.
        (select l.appended_at from headrace.log l
        where u.partition >= 0 and l.topic_id = c.topic_id
            and l.partition <= u.partition and (l.partition, l.position) > (u.partition, u.position)
        order by l.partition, l.position limit 1001)
        union all
        (select l.appended_at from headrace.log l
        where u.partition = -1 and l.topic_id = c.topic_id and l.position > u.position
        order by l.position limit 1)
    ) l
    where u.position < c.head
) b on true
order by c.topic, c.consumer, u.partition;
