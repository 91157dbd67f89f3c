-- name: advance_stream
-- Moves a stream behind a micro-batch. Index: stream_pkey.
update headrace_internal.stream s
set shard = %(shard)s, topic = %(topic)s, position = %(position)s, batches = s.batches + 1, outputs = s.outputs + %(outputs)s,
    passed_at = timestamptz 'epoch' + %(passed_us)s * interval '1 microsecond', committed_at = headrace.clock()
where s.stream_id = %(stream_id)s;

-- name: any_due
-- Is a timer of the correlator due by a settled time, or else by the time of its topic? Index: correlator_instance_due.
select 1 from headrace_internal.correlator_instance i
where i.correlator_id = %(correlator_id)s
    and i.deadline <= (select coalesce(%(settled)s::timestamptz, headrace.log_clock(%(topic_id)s)))
limit 1;

-- name: begin_stream
-- Finds the stream of this name, or creates it, with the correlators it was begun with. Index: stream_name_unique.
with begun as (
    insert into headrace_internal.stream (namespace, stream, correlators)
    values (headrace.current_namespace(%(namespace)s), %(stream)s, %(correlators)s)
    on conflict on constraint stream_name_unique do nothing
    returning stream_id, correlators
)
select b.stream_id, b.correlators from begun b
union all
select s.stream_id, s.correlators from headrace_internal.stream s
where s.namespace = headrace.current_namespace(%(namespace)s) and s.stream = %(stream)s
limit 1;

-- name: continuity
-- Selects the events at some positions, one per topic, with what tells whether the log is still the same: the epoch, and whether this server
-- is a replica, which may lag. One row for a topic whose log does not have the position, too. Index: log_position.
select p.topic_id, l.event_id::text, headrace.log_epoch() as epoch, pg_is_in_recovery() as is_replica
from unnest(%(topic_ids)s::integer[], %(positions)s::bigint[]) p (topic_id, "position")
left join lateral (
    -- The limit makes this a look-up per row of p: joined as a whole, the log would be read from end to end.
    select l.event_id from headrace.log l where l.topic_id = p.topic_id and l.position = p.position limit 1
) l on true;

-- name: due_stream_keys
-- Selects the keys of a correlator with timers that are due by a time, in microseconds. Index: stream_state_due.
select s.key from headrace_internal.stream_state s
where s.stream_id = %(stream_id)s and s.correlator = %(correlator)s and s.deadline <= %(until)s;

-- name: erasures
-- Changes with every erasure, which deletes states without moving a cursor or a stream. Index: erasure_pkey.
select count(*), max(e.erasure_id) from headrace_internal.erasure e;

-- name: lock_cursors
-- Locks the cursors of these consumers and returns those it got.
-- Locks: the cursor rows, no key update, skip locked. Index: cursor_pkey.
select u.consumer_id from headrace_internal.cursor u
where u.consumer_id = any (%(consumer_ids)s) and u.partition = -1
order by u.consumer_id
for no key update skip locked;

-- name: lock_stream
-- Where a stream is. Locks: its row, for the transaction of a micro-batch. Index: stream_pkey.
select s.shard, s.topic, s.position from headrace_internal.stream s where s.stream_id = %(stream_id)s for update;

-- name: logs
-- Selects the topics of a namespace: the first position in archive or log, the next position, and the first one that the log itself has.
-- Indexes: topic_name_unique, log_position backwards, archive_position.
select t.topic_id, t.topic,
    coalesce(case when %(archive)s and t.dropped_to > 0 then headrace.archived_from(t.topic_id, t.dropped_to) end, t.dropped_to + 1) as first,
    coalesce(h.position, t.dropped_to) + 1 as until, t.dropped_to + 1 as log_first
from headrace.topic t
left join lateral headrace.log_head(t.topic_id) h on true
where t.namespace = headrace.current_namespace(%(namespace)s)
order by t.topic;

-- name: next_due_s
-- Seconds until the next timer of a topic's correlators is due; null on the event clock, where timers wait for events anyway.
-- Index: correlator_instance_due.
select extract(epoch from min(d.deadline) - headrace.clock())::double precision
from headrace_internal.topic t
join headrace_internal.correlator c on c.topic_id = t.topic_id
cross join lateral (
    select i.deadline from headrace_internal.correlator_instance i
    where i.correlator_id = c.correlator_id and i.deadline is not null order by i.deadline limit 1
) d
where t.topic_id = %(topic_id)s and t.clock = 'server';

-- name: pipeline_batches
-- Selects the newest batches of a topic's pipeline, newest first. Index: pipeline_batch_pkey.
select b.batch, b.from_position, b.upto, b.firings, b.outputs, b.timers, b.took_ms, b.committed_at
from headrace.pipeline_batch b
where b.topic_id = headrace.topic_id(%(topic)s, %(namespace)s)
order by b.batch desc limit %(limit)s;

-- name: pipeline_consumers
-- Selects the consumers that run a topic's rules and correlators. ready: it is due, and its active version is not about to change.
-- erasures: changes with every erasure, which takes data out of events and states without moving a cursor.
-- The version of all rules together is the newest compiled one. mark: changes with every move of the cursor.
-- Indexes: erasure_pkey, consumer_name_unique, cursor_pkey, rule_version_pending, correlator_version_pending.
select c.consumer_id, t.correlator_id, coalesce(t.version_id, r.version_id) as version_id, u.position, u.single_to, u.xmin::text as mark,
    coalesce(t.simple, false) as simple, (select coalesce(max(e.erasure_id), 0) from headrace_internal.erasure e) as erasures,
    u.state = 'running' and (u.retry_at is null or u.retry_at <= headrace.clock()) and not coalesce(t.halted, false)
        and not exists (select from headrace_internal.pause p where p.consumer_id = c.consumer_id)
        and not exists (
            select from headrace_internal.rule_version v
            where t.correlator_id is null and v.topic_id = c.topic_id and v.status = 'pending')
        and not exists (
            select from headrace_internal.correlator_version v where v.correlator_id = t.correlator_id and v.status = 'pending') as ready
from headrace_internal.consumer c
join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
left join headrace_internal.correlator_table t on t.consumer_id = c.consumer_id
left join lateral (
    select coalesce(max(v.version_id), 0) as version_id
    from headrace_internal.rule_version v where v.topic_id = c.topic_id and v.status <> 'pending'
) r on c.consumer = 'headrace.rules'
where c.topic_id = %(topic_id)s and (c.consumer = 'headrace.rules' or t.correlator_id is not null)
order by c.consumer_id;

-- name: pipeline_rules
-- Selects the active rules of a topic that run after the log. Indexes: rule_version_in_force, rule_match_pkey.
select m.version_id::text as name, v.event_type, v.canonical as condition, v.action, m.since_position as since_offset
from headrace_internal.rule_version v
join headrace_internal.rule_match m on m.version_id = v.version_id and m.key_number = 1
where v.topic_id = %(topic_id)s and v.since_position is not null and v.timing = 'after'
order by m.version_id;

-- name: pipeline_states
-- Selects the pipelines of a namespace, or that of one topic, with their progress.
select s.topic, s.namespace, s.engine, s.state, s.process, s.master, s.started_at, s.heartbeat_at, s.batches, s.events, s.firings,
    s.outputs, s.position, s.lag_events, s.lag_s, s.rate, s.batch_ms, s.error
from headrace.pipeline_state s
where s.namespace = headrace.current_namespace(%(namespace)s) and (%(topic)s::text is null or s.topic = %(topic)s)
order by s.topic;

-- name: pipeline_topic
-- Selects a topic with the engine it runs on and the end of its log. Indexes: topic_pkey, log_position backwards.
select t.topic_id, t.engine, coalesce(h.position, t.dropped_to) as head
from headrace_internal.topic t
left join lateral headrace.log_head(t.topic_id) h on true
where t.topic_id = headrace.topic_id(%(topic)s, %(namespace)s);

-- name: read_states
-- Selects the instances of these keys, one text per column: the numbers of the keys they belong to, then values separated by commas,
-- or lists by semicolons. Null if there are none. (A double is exact to the microsecond until after 2100, and ten times faster
-- than numeric.) Index: correlator_instance_pkey.
select string_agg(k.n::text, ','), string_agg(i.units::text, ';'), string_agg(i.deadlines::text, ';'),
    string_agg(i.evidence::text, ';'), string_agg(i.evidence_total::text, ','),
    string_agg((date_part('epoch', i.started_at) * 1000000)::bigint::text, ','),
    string_agg((date_part('epoch', i.seen_at) * 1000000)::bigint::text, ',')
from unnest(%(keys)s::text[]) with ordinality k (key, n)
cross join lateral (
    select i.units, i.deadlines, i.evidence, i.evidence_total, i.started_at, i.seen_at
    from headrace_internal.correlator_instance i
    where i.correlator_id = %(correlator_id)s and i.key = k.key offset 0
) i;

-- name: read_stream_states
-- Selects the states of these keys. Index: stream_state_pkey.
select s.key, s.state from headrace_internal.stream_state s
where s.stream_id = %(stream_id)s and s.correlator = %(correlator)s and s.key = any (%(keys)s::text[]);

-- name: recorded_correlations
-- Outputs of correlators in a range of a topic's positions; outputs of timers by the range's time.
-- Indexes: correlation_position, correlation_timer.
select v.correlator as name, f.token, f.key, f.position, f.output_at as time, f.event_id::text as event_id, f.evidence, f.evidence_total
from headrace.correlation f
join headrace.correlator_version v on v.version_id = f.version_id
where f.topic_id = %(topic_id)s and v.namespace = headrace.current_namespace(%(namespace)s) and v.correlator = any (%(names)s::text[])
    and (f.position >= %(first)s and f.position < %(until)s
        or f.position is null and f.output_at >= %(from_at)s and f.output_at <= %(to_at)s);

-- name: recorded_firings
-- Firings of rules in a range of a topic's positions, of all versions.
-- Index: firing_position.
select v.rule as name, f.position, f.event_id::text as event_id
from headrace.firing f
join headrace.rule_version v on v.version_id = f.rule_version_id
where f.topic_id = %(topic_id)s and f.position >= %(first)s and f.position < %(until)s
    and v.namespace = headrace.current_namespace(%(namespace)s) and v.rule = any (%(names)s::text[]);

-- name: write_states
-- Writes instances; times are microseconds since 1970.
select headrace_internal.write_instances(%(correlator_id)s, %(key)s::text[], %(units)s::text[], %(deadlines)s::text[],
    (select array_agg(timestamptz 'epoch' + s.us * interval '1 microsecond' order by s.n)
        from unnest(%(started_at)s::bigint[]) with ordinality s (us, n)),
    (select array_agg(timestamptz 'epoch' + s.us * interval '1 microsecond' order by s.n)
        from unnest(%(seen_at)s::bigint[]) with ordinality s (us, n)),
    %(evidence)s::text[], %(evidence_total)s::integer[]);

-- name: write_stream_outputs
-- Writes the outputs of a micro-batch; times are microseconds since 1970. A repeated output is an error, not skipped.
insert into headrace_internal.stream_output
    (stream_id, correlator, version, key, token, position, output_at, place, evidence, evidence_total, captured)
select %(stream_id)s, %(correlator)s, %(version)s, n.key, n.token, n.position,
    timestamptz 'epoch' + n.us * interval '1 microsecond', n.place, n.evidence::bigint[], n.evidence_total, n.captured::jsonb
from unnest(%(keys)s::text[], %(tokens)s::text[], %(positions)s::bigint[], %(times)s::bigint[], %(places)s::integer[],
    %(evidence)s::text[], %(totals)s::bigint[], %(captured)s::text[])
    n (key, token, position, us, place, evidence, evidence_total, captured);

-- name: write_stream_states
-- Inserts or updates the states of keys. Index: stream_state_pkey.
insert into headrace_internal.stream_state (stream_id, correlator, key, deadline, state)
select %(stream_id)s, %(correlator)s, n.key, n.deadline, n.state
from unnest(%(keys)s::text[], %(deadlines)s::bigint[], %(states)s::text[]) n (key, deadline, state)
on conflict on constraint stream_state_pkey do update set deadline = excluded.deadline, state = excluded.state;
