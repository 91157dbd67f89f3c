-- Pipelines with their progress: rate and batch time of the last twenty batches, lag of the topic's slowest internal consumer,
-- in seconds of the topic's own time.
-- Indexes: pipeline_batch_pkey, cursor_pkey, log_position.
create or replace view headrace.pipeline_state with (security_barrier) as
select t.namespace, t.topic, t.engine, p.process, p.master,
    case when p.stopped_at is not null then 'stopped'
        when p.heartbeat_at < headrace.clock() - interval '30 seconds' then 'lost' else 'running' end as state,
    p.started_at, p.heartbeat_at, p.batches, p.events, p.firings, p.outputs, u.position,
    greatest(coalesce(h.position, t.dropped_to) - u.position, 0) as lag_events,
    coalesce(greatest(extract(epoch from case when t.clock = 'server' then headrace.clock() else h.appended_at end
        - o.appended_at), 0), 0)::double precision as lag_s,
    b.rate, b.batch_ms, p.error
from headrace_internal.pipeline p
join headrace_internal.topic t on t.topic_id = p.topic_id
left join lateral (
    select l.position, l.appended_at from headrace_internal.log l where l.topic_id = t.topic_id order by l.position desc limit 1
) h on true
left join lateral (
    select min(u.position) as position
    from headrace_internal.consumer c join headrace_internal.cursor u on u.consumer_id = c.consumer_id
    where c.topic_id = t.topic_id and starts_with(c.consumer, 'headrace.')
) u on true
left join lateral (
    select l.appended_at from headrace_internal.log l
    where l.topic_id = t.topic_id and l.position > u.position order by l.position limit 1
) o on true
left join lateral (
    select avg(b.took_ms) as batch_ms, (sum(b.upto - b.from_position) / nullif(extract(epoch from
        max(b.committed_at) - min(b.committed_at - b.took_ms * interval '1 millisecond')), 0))::double precision as rate
    from (
        select b.upto, b.from_position, b.took_ms, b.committed_at from headrace_internal.pipeline_batch b
        where b.topic_id = p.topic_id order by b.batch desc limit 20
    ) b
) b on true
where t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
