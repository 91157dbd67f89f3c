-- Pipelines.
create or replace view headrace.pipeline with (security_barrier) as
select p.topic_id, p.run_id, p.process, p.master, p.started_at, p.heartbeat_at, p.stopped_at, p.batches, p.events,
    p.firings, p.outputs, p.error
from headrace_internal.pipeline p
where p.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');

-- Batches of pipelines.
create or replace view headrace.pipeline_batch with (security_barrier) as
select b.topic_id, b.batch, b.run_id, b.from_position, b.upto, b.firings, b.outputs, b.timers, b.took_ms, b.committed_at
from headrace_internal.pipeline_batch b
where b.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');

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

-- Streams: correlators over Spark's streaming frames, and how far each one is.
create or replace view headrace.stream with (security_barrier) as
select s.namespace, s.stream, s.shard, s.topic, s.position, s.passed_at, s.batches, s.outputs, s.committed_at
from headrace_internal.stream s
where s.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');

-- The outputs of correlators over Spark's streaming frames, in no order.
create or replace view headrace.stream_output with (security_barrier) as
select s.namespace, s.stream, o.correlator, o.version, o.key, o.token, o.position, o.output_at, o.place, o.evidence, o.evidence_total,
    o.captured, o.written_at
from headrace_internal.stream_output o
join headrace_internal.stream s on s.stream_id = o.stream_id
where s.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
