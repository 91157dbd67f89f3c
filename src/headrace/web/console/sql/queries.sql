-- name: actions_results
-- Selects the actions of a namespace that ended last, of any outcome or one, newest first. Reads the public view only.
-- Index: action_result_age, backwards; at most %(rows)s are looked at.
select r.action_id, r.action, r.outcome, r.attempts, r.duration_s, r.ended_at
from (
    select r.action_id, r.action, r.outcome, r.attempts, r.duration_s, r.ended_at
    from headrace.action_result r
    where r.namespace = headrace.current_namespace(%(namespace)s)
    order by r.ended_at desc
    limit %(rows)s) r
where (%(outcome)s::text is null or r.outcome = %(outcome)s) and (%(action)s::text is null or r.action = %(action)s)
order by r.ended_at desc
limit %(limit)s;

-- name: cursors
-- Selects the cursors of a namespace's consumers, or of one topic or consumer, with their lag (headrace.cursor_lag: exact up to 100 events of a
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

-- name: dead_letters
-- Selects a page of the dead letters of one group, after a number. See headrace.read_dead_letters.
select %(kind)s as kind, d.number, d.id, d.original_id, d.name, d.key, d.payload, d.edited, d.state, d.reason, d.error, d.attempts, d.buried_at
from headrace.read_dead_letters(
    %(kind)s, %(source)s, %(name)s, %(reason)s, %(error)s, p_after => %(after)s, p_limit => %(limit)s, p_open => %(open)s,
    p_namespace => %(namespace)s) d;

-- name: dead_letters_groups
-- Open dead letters counted by source, reason and error group, the largest groups first. See headrace.count_dead_letters.
select g.kind, g.source, g.name, g.reason, g.error_group, g.dead, g.marked, g.is_more, g.first_at, g.last_at
from headrace.count_dead_letters(p_namespace => %(namespace)s) g
order by g.dead desc, g.source, g.name, g.error_group;

-- name: event_at
-- Selects the id of the event at a position; none if there is no such topic. Index: topic_name_unique.
select l.event_id
from headrace.topic t
cross join lateral headrace.read_log(t.topic_id, %(position)s - 1, 1) l
where t.namespace = headrace.current_namespace(%(namespace)s) and t.topic = %(topic)s and l.position = %(position)s;

-- name: event_texts
-- Payload and headers of one event as text, so that no digit is lost: from the log, else from the outbox.
-- Index: log_event_id; the outbox is scanned, because it is short.
select e.payload::text, e.headers::text
from (
    select l.topic_id, l.payload, l.headers from headrace.log l where l.event_id = %(event_id)s
    union all
    select o.topic_id, o.payload, o.headers from headrace.outbox o where o.event_id = %(event_id)s
) e
where e.topic_id = headrace.topic_id(%(topic)s, %(namespace)s)
limit 1;

-- name: failures
-- Selects what fails in the loops of a namespace's nodes and is tried again. Reads the public view only.
select f.kind, f.name, f.failures, f.first_at, f.retry_at, split_part(f.error, E'\n', 1) as error
from headrace.failure f
where f.namespace = headrace.current_namespace(%(namespace)s)
order by f.first_at;

-- name: find_names
-- Names of a namespace that contain a text, at most 20 of each kind: for the console's palette.
-- Reads the public views only, so a role finds what it may see.
(select 'topic' as kind, t.topic as name from headrace.topic t
where t.namespace = headrace.current_namespace(%(namespace)s) and strpos(lower(t.topic), lower(%(text)s)) > 0 order by t.topic limit 20)
union all
(select 'consumer', t.topic || '/' || c.consumer from headrace.consumer c join headrace.topic t on t.topic_id = c.topic_id
where t.namespace = headrace.current_namespace(%(namespace)s) and strpos(lower(t.topic || '/' || c.consumer), lower(%(text)s)) > 0
order by 2 limit 20)
union all
(select 'rule', r.rule from headrace.rule_state r
where r.namespace = headrace.current_namespace(%(namespace)s) and strpos(lower(r.rule), lower(%(text)s)) > 0 order by r.rule limit 20)
union all
(select 'correlator', r.correlator from headrace.correlator_state r
where r.namespace = headrace.current_namespace(%(namespace)s) and strpos(lower(r.correlator), lower(%(text)s)) > 0
order by r.correlator limit 20)
union all
(select 'schedule', s.schedule from headrace.schedule s
where s.namespace = headrace.current_namespace(%(namespace)s) and strpos(lower(s.schedule), lower(%(text)s)) > 0
order by s.schedule limit 20)
union all
(select 'action', a.action from headrace.action a
where a.namespace = headrace.current_namespace(%(namespace)s) and strpos(lower(a.action), lower(%(text)s)) > 0 order by a.action limit 20);

-- name: pipeline_batches
-- Selects the newest batches of each Spark pipeline of a namespace. Reads the public views only. Index: pipeline_batch_pkey, backwards.
select t.topic, b.batch, b.from_position, b.upto, b.upto - b.from_position as events, b.firings, b.outputs, b.timers, b.took_ms, b.committed_at
from headrace.pipeline p
join headrace.topic t on t.topic_id = p.topic_id and t.namespace = headrace.current_namespace(%(namespace)s)
cross join lateral (
    select b.batch, b.from_position, b.upto, b.firings, b.outputs, b.timers, b.took_ms, b.committed_at
    from headrace.pipeline_batch b where b.topic_id = p.topic_id
    order by b.batch desc
    limit %(limit)s) b
order by b.committed_at desc;

-- name: pipelines
-- Selects the Spark pipelines of a namespace with their progress. Reads the public view, so a role sees its own namespaces.
select p.topic, p.state, p.process, p.master, p.batches, p.events, p.rate, p.batch_ms, p.lag_events, p.lag_s, p.started_at, p.heartbeat_at, p.error
from headrace.pipeline_state p
where p.namespace = headrace.current_namespace(%(namespace)s)
order by p.topic;

-- name: rule_firings
-- Selects the firings of a rule, newest first, among the newest firings of its topics. Versions of all times: a rule may have moved.
-- Index: firing_position backwards. Firings by rule have no index: the limit bounds what is read.
select f.fired_at, f.position, f.event_id, v.version, f.action, f.action_id
from (
    select distinct v.topic_id from headrace.rule_version v
    where v.namespace = headrace.current_namespace(%(namespace)s) and v.rule = %(rule)s
) t
cross join lateral (
    select f.fired_at, f.position, f.event_id, f.action, f.action_id, f.rule_version_id
    from headrace.firing f
    where f.topic_id = t.topic_id and f.position is not null
    order by f.position desc
    limit %(limit)s
) f
join headrace.rule_version v on v.version_id = f.rule_version_id and v.rule = %(rule)s
    and v.namespace = headrace.current_namespace(%(namespace)s)
order by f.fired_at desc, f.position desc;

-- name: shard
-- One shard in a row: the server's version, the schema's release, the number of topics, the size of the database.
-- Reads the public views and the catalog only.
select current_setting('server_version') as server, (select r.release from headrace.schema_release() r) as release,
    (select count(*) from headrace.topic t where t.namespace = headrace.current_namespace(%(namespace)s)) as topics,
    pg_database_size(current_database()) as bytes;

-- name: topic_bytes
-- Selects the size of a topic's log on disk, with its indexes. From the catalog: a role of a namespace cannot name the tables.
select coalesce(sum(pg_total_relation_size(p.relid)), 0)::bigint as bytes
from headrace.topic t
join pg_class c on c.relname = 'log_' || t.topic_id
join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'headrace_internal'
cross join lateral pg_partition_tree(c.oid) p
where t.namespace = headrace.current_namespace(%(namespace)s) and t.topic = %(topic)s and p.isleaf;
