-- Consumers with their failure policy and condition.
create or replace view headrace.consumer with (security_barrier) as
select c.consumer_id, c.topic_id, c.consumer, c.ordered_by, c.attempts_max, c.backoff_s, c.backoff_max_s,
    c.when_exhausted, c.key_order, c.created_at, c.condition,
    case when c.condition is null then null when c.filter is not null then 'valid' when c.condition_error is not null then 'invalid'
        else 'pending' end as condition_status, c.condition_error, c.latency_ms
from headrace_internal.consumer c
where c.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');

-- Cursors: how far a consumer has come, per partition.
create or replace view headrace.cursor with (security_barrier) as
select u.consumer_id, u.partition, u.position, u.state, u.attempts, u.retry_at, u.error, u.traceback, u.single_to, u.moved_at
from headrace_internal.cursor u
where u.consumer_id in (
    select c.consumer_id from headrace_internal.consumer c
    join headrace_internal.caller_topic k on k.topic_id = c.topic_id and k.level = 'consume');

-- The lag of every consumer, per partition: in events and in seconds (the age of the oldest event not yet handled, in the topic's own
-- time: if that is the events', the age at its newest event); and how many live nodes run it. Rules and correlators run on any node with a sequencer; on Spark, where nodes is null.
-- Indexes: log_partition, log_position.
create or replace view headrace.consumer_lag with (security_barrier) as
select t.namespace, t.topic, c.consumer, u.partition, u.position,
    case when p.consumer_id is null then u.state else 'paused' end as state, u.attempts, u.retry_at, u.error, u.traceback,
    behind.events as lag_events,
    coalesce(greatest(extract(epoch from case when t.clock = 'server' then headrace.clock() else (
            select l.appended_at from headrace_internal.log l where l.topic_id = t.topic_id order by l.position desc limit 1) end
        - behind.oldest_at), 0), 0)::double precision as lag_s,
    case when c.consumer not like 'headrace.%' or t.engine = 'database' then (
        select count(*) from headrace_internal.node n
        where n.stopped_at is null and n.heartbeat_at > headrace.clock() - interval '90 seconds'
            and case when c.consumer like 'headrace.%' then n.sequencer
                else n.namespace = t.namespace and n.consumers @> array[t.topic || '/' || c.consumer] end) end as nodes,
    case when c.consumer not like 'headrace.%' then c.session_limit_s end as session_limit_s
from headrace_internal.consumer c
join headrace_internal.topic t on t.topic_id = c.topic_id
join headrace_internal.cursor u on u.consumer_id = c.consumer_id
left join headrace_internal.pause p on p.consumer_id = c.consumer_id
cross join lateral (
    select count(*) as events, min(l.appended_at) as oldest_at
    from headrace_internal.log l
    where l.topic_id = t.topic_id and l.position > u.position and (u.partition = -1 or l.partition = u.partition)
) behind
where t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');

-- Events that a consumer could not handle, and the events of their keys that wait behind them.
create or replace view headrace.event_dead_letter with (security_barrier) as
select d.dead_letter_id, d.consumer_id, d.partition, d.position, d.event_id, d.type, d.key, d.payload, d.headers,
    d.state, d.reason, d.error, d.traceback, d.attempts, d.buried_at, d.ended_at, headrace_internal.error_group(d.error) as error_group,
    d.edited_payload
from headrace_internal.dead_letter d
where d.consumer_id in (
    select c.consumer_id from headrace_internal.consumer c
    join headrace_internal.caller_topic k on k.topic_id = c.topic_id and k.level = 'consume');
