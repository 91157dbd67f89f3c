-- name: active_table
-- Selects a version of a correlator with its compiled table, how much evidence it keeps and whether it forgets keys, if it is the active one.
select t.compiled, v.evidence_max, v.forget_after is not null as forgets, v.correlator as name, v.version, v.pattern, v.key
from headrace_internal.correlator_table t
join headrace_internal.correlator_version v on v.version_id = t.version_id
where t.correlator_id = %(correlator_id)s and t.version_id = %(version_id)s;

-- name: begin_compilation
-- Begins the compilation of a correlator: its position; no row if it is dropped. Locks: the cursor row; it waits for a running batch.
select headrace_internal.begin_compilation(k.topic_id, 'headrace.correlator.' || k.correlator, k.active)
from headrace_internal.correlator k where k.correlator_id = %(correlator_id)s;

-- name: corpus_copy
copy headrace_internal.log (position, appended_at, emitted_at, topic_id, partition, event_id, type, key, payload, headers) from stdin

-- name: corpus_correlators
-- One correlator per pattern, without a key.
insert into headrace_internal.correlator (namespace, correlator, topic, pattern)
select %(namespace)s, r.name, %(namespace)s, r.pattern
from unnest(%(names)s::text[], %(patterns)s::text[]) with ordinality r (name, pattern, n)
order by r.n
returning correlator_id;

-- name: corpus_cursors
-- Each correlator before the first of its own events.
update headrace_internal.cursor u set position = r.position
from unnest(%(names)s::text[], %(positions)s::bigint[]) r (name, position)
join headrace_internal.topic t on t.namespace = %(namespace)s
join headrace_internal.consumer c on c.topic_id = t.topic_id and c.consumer = 'headrace.correlator.' || r.name
where u.consumer_id = c.consumer_id;

-- name: corpus_error
-- Why a pattern does not run.
select v.error from headrace_internal.correlator_version v where v.namespace = %(namespace)s and v.correlator = %(name)s;

-- name: corpus_outputs
-- What a correlator has pushed, in order: a timer's before the event's that it was due by. Index: correlation_once.
select f.position, f.output_at, f.token, f.captured::text
from headrace_internal.correlation f
where f.version_id = %(version_id)s
order by f.output_at, f.position nulls first, f.place;

-- name: corpus_state
-- Selects the table of a correlator, and the state of its one instance; null at the start.
select t.compiled, (select i.units from headrace_internal.correlator_instance i where i.correlator_id = t.correlator_id and i.key = '')
from headrace_internal.correlator_table t where t.correlator_id = %(correlator_id)s;

-- name: correlations
-- Selects the newest outputs of a correlator, also of a dropped one, or of all, the newest first. Index: correlation_once.
select h.correlator, h.version, h.topic, h.key, h.token, h.output_at, h.position, h.event_id, h.evidence, h.evidence_total,
    h.becomes, h.name, h.output_id, h.captured
from headrace.correlation_history h
where h.namespace = headrace.current_namespace(%(namespace)s)
    and (%(correlator)s::text is null or h.correlator = %(correlator)s) and (%(key)s::text is null or h.key = %(key)s)
order by h.correlation_id desc
limit %(limit)s;

-- name: due_instances
-- Selects the instances whose timers are due by a settled time, the earliest first. Index: correlator_instance_due.
select i.key, i.units, i.deadlines, i.started_at, i.seen_at, i.evidence, i.evidence_total, i.memory
from headrace_internal.correlator_instance i
where i.correlator_id = %(correlator_id)s and i.deadline <= %(settled)s
order by i.deadline limit %(max)s;

-- name: evidence
-- Selects the events at some positions of a topic that are still in the log. Index: log_position.
select l.position, l.type, l.key, l.emitted_at, l.payload
from headrace.log l
where l.topic_id = headrace.topic_id(%(topic)s, %(namespace)s) and l.position = any (%(positions)s::bigint[])
order by l.position;

-- name: instance_counts
-- Selects how many keys stand where. Index: correlator_instance_pkey.
select i.units, count(*)
from headrace.correlator c
join headrace.correlator_instance i on i.correlator_id = c.correlator_id
where c.namespace = headrace.current_namespace(%(namespace)s) and c.correlator = %(correlator)s
group by i.units;

-- name: key_events
-- Selects the newest events of a key of a correlator, newest first, with payload and headers as texts so that no digit is lost. {key} is
-- the key's expression, printed from our own tree. Reads the topic from a time on. Index: log_position.
select l.position, l.type, l.key, l.payload::text as payload, l.headers::text as headers, l.emitted_at, l.appended_at
from headrace.log l
where l.topic_id = %(topic_id)s and l.appended_at >= %(since)s and l.position > %(after)s and ({key}) = %(key)s
order by l.position desc
limit %(limit)s

-- name: key_pushed
-- Selects the time of the topic now, and how many tokens a key has pushed in all versions. Index: correlation_once.
select coalesce(headrace.log_clock(c.topic_id), headrace.clock()), (
    select count(*) from headrace.correlation f
    where f.key = %(key)s and f.version_id in (
        select v.version_id from headrace.correlator_version v where v.correlator_id = %(correlator_id)s))
from headrace.correlator c where c.correlator_id = %(correlator_id)s;

-- name: mark_version
-- Marks a version that does not become active: invalid (with its error), not active, already replaced, or a deletion.
update headrace_internal.correlator_version v
set status = case when %(error)s::text is null then 'valid' else 'invalid' end, error = %(error)s, canonical = %(canonical)s,
    warning = %(warning)s
where v.version_id = %(version_id)s;

-- name: next_due_s
-- Selects in how many seconds of the topic's time the correlator's next timer is due, and whether that is the server's time, which passes
-- without events. No row if there is no timer, or it is paused. Index: correlator_instance_due.
select extract(epoch from i.deadline - headrace.log_clock(t.topic_id)), t.clock = 'server'
from headrace_internal.correlator c
join headrace_internal.topic t on t.topic_id = c.topic_id
cross join lateral (
    select i.deadline from headrace_internal.correlator_instance i
    where i.correlator_id = c.correlator_id and i.deadline is not null order by i.deadline limit 1
) i
where c.correlator_id = %(correlator_id)s and not exists (
    select from headrace_internal.correlator_table r join headrace_internal.pause p on p.consumer_id = r.consumer_id
    where r.correlator_id = c.correlator_id);

-- name: other_correlators
-- Selects the correlators of a namespace that run and publish events, but one: what could lead back to it.
select c.correlator, c.topic, t.compiled, c.outputs
from headrace.correlator c
join headrace.correlator_table t on t.correlator_id = c.correlator_id
where c.namespace = headrace.current_namespace(%(namespace)s) and c.correlator <> %(correlator)s and c.active
    and c.outputs @? '$.*.event'
order by c.correlator;

-- name: pending_correlator_versions
-- Selects a correlator's versions to compile, oldest first. Index: correlator_version_pending.
select v.version_id, v.namespace, v.correlator, t.topic, v.topic_id, v.key, v.pattern, v.outputs, v.active, v.allow_feedback, v.restart,
    v.dropped, n.unknown_names, v.forget_after is not null as forgets
from headrace_internal.correlator_version v
join headrace_internal.topic t on t.topic_id = v.topic_id
join headrace_internal.namespace n on n.namespace = v.namespace
where v.correlator_id = %(correlator_id)s and v.status = 'pending'
order by v.version_id;

-- name: pending_correlators
-- Correlators with versions to compile, and those that kept their consumer because a transaction was open when they were
-- deactivated; except those whose compilation has failed and pauses. Index: correlator_version_pending.
select k.correlator_id, k.namespace, k.correlator
from (
    select v.correlator_id, min(v.namespace) as namespace, min(v.correlator) as correlator
    from headrace_internal.correlator_version v where v.status = 'pending' group by v.correlator_id
    union
    select k.correlator_id, k.namespace, k.correlator
    from headrace_internal.correlator k
    join headrace_internal.consumer c on c.topic_id = k.topic_id and c.consumer = 'headrace.correlator.' || k.correlator
    where not k.active
) k
where not exists (select from headrace_internal.failure f
    where f.kind = 'correlator compilation' and f.namespace = k.namespace and f.name = k.correlator and f.retry_at > headrace.clock())
order by k.correlator_id;

-- name: read_instances
-- Selects the instances of these keys. Index: correlator_instance_pkey.
select i.key, i.units, i.deadlines, i.started_at, i.seen_at, i.evidence, i.evidence_total, i.memory
from unnest(%(keys)s::text[]) k (key)
cross join lateral (
    select i.key, i.units, i.deadlines, i.started_at, i.seen_at, i.evidence, i.evidence_total, i.memory
    from headrace.correlator_instance i
    where i.correlator_id = %(correlator_id)s and i.key = k.key offset 0
) i;

-- name: read_symbols
-- Selects the events of a batch as a node steps them: position, key, time in microseconds, and {{values}}, their symbols or facts.
-- Index: log_position.
select s.position, s.key, (extract(epoch from s.appended_at) * 1000000)::bigint as time, {values}
from headrace_internal.read_symbols(%s, %s, %s) s;

-- name: recent_symbols
-- Selects key and symbols of a topic's events after a position, from the public view. The braces are filled with what our own printers
-- made of checked trees. Index: log_position.
select ({key}) collate "C" as key, array[{symbols}]::integer[] as symbols, appended_at
from headrace.log
where topic_id = {topic_id} and position > {after}
order by position

-- name: running_table
-- Selects the table that runs, and the key its instances have.
select t.compiled, v.key
from headrace.correlator c
join headrace.correlator_table t on t.correlator_id = c.correlator_id
join headrace.correlator_version v on v.version_id = t.version_id
where c.namespace = headrace.current_namespace(%(namespace)s) and c.correlator = %(correlator)s;

-- name: symbols_body
select e.position, e.key, {symbol} as symbol, {symbols} as symbols, e.appended_at, {facts} as facts
from (
    select position, type, appended_at, ({key}) collate "C" as key{fields}
    from headrace_internal.{log}
    where position > $1 and position <= $2{types}
    offset 0
) e

-- name: symbols_plain_body
select position, ({key}) collate "C" as key, {symbol} as symbol, {symbols} as symbols, appended_at, {facts} as facts
from headrace_internal.{log}
where position > $1 and position <= $2{types}

-- name: topic_time
-- Selects a topic with its last position (0: its log is empty), the time up to which its timers may have fired, which is its clock's, and
-- its first position. Index: log_position, backwards.
select t.topic_id, coalesce(l.position, 0), case when t.clock = 'server' then headrace.clock() else l.appended_at end, t.dropped_to + 1
from headrace.topic t
left join lateral headrace.log_head(t.topic_id) l on true
where t.topic_id = headrace.topic_id(%(topic)s, %(namespace)s)

-- name: unwatch
-- Deletes the internal consumer of a correlator, unless it is active.
select headrace_internal.unwatch(k.topic_id, 'headrace.correlator.' || k.correlator)
from headrace_internal.correlator k where k.correlator_id = %(correlator_id)s;

-- name: watched_correlators
-- Selects the correlators with an active version.
select t.correlator_id, t.version_id, t.consumer_id, v.topic_id, v.correlator, o.topic, v.namespace, t.simple
from headrace_internal.correlator_table t
join headrace_internal.correlator_version v on v.version_id = t.version_id
join headrace_internal.topic o on o.topic_id = v.topic_id
where not t.halted
order by t.correlator_id;
