-- What users write of a correlator: headrace.write_definition writes these columns and no others.
create or replace view headrace_internal.correlator_fields as
select r.namespace, r.correlator, r.topic, r.key, r.pattern, r.outputs, r.forget_after, r.evidence_max, r.active, r.allow_feedback,
    r.restart, r.source
from headrace_internal.correlator r;

-- Correlators. Admins of a namespace may insert and update rows, and drop one by `set dropped = true`.
create or replace view headrace.correlator as
select r.correlator_id, r.namespace, r.correlator, r.topic, r.key, r.pattern, r.outputs, r.forget_after, r.evidence_max,
    r.active, r.allow_feedback, r.restart, r.source, r.topic_id, r.version, r.status, r.error, r.since_position,
    false as dropped
from headrace_internal.readable_definitions(null::headrace_internal.correlator) r;

create or replace trigger correlator_write instead of insert or update or delete on headrace.correlator
for each row execute function headrace_internal.write_view();

-- All versions of correlators.
create or replace view headrace.correlator_version with (security_barrier) as
select v.version_id, v.correlator_id, v.version, v.namespace, v.correlator, v.topic, v.topic_id, v.key, v.pattern, v.outputs,
    v.forget_after, v.evidence_max, v.active, v.allow_feedback, v.restart, v.dropped, v.written_at, v.written_by,
    v.status, v.error, v.warning, v.canonical, v.since_position, v.until_position, v.since_at, v.until_at, v.carried,
    v.restarted
from headrace_internal.correlator_version v
where v.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');

-- Compiled tables of correlators.
create or replace view headrace.correlator_table with (security_barrier) as
select t.correlator_id, t.version_id, t.consumer_id, t.compiled, t.simple, t.halted, t.symbols, t.rows, t.marks, t.idle,
    t.tokens, t.forget_from
from headrace_internal.correlator_table t
where t.correlator_id in (
    select c.correlator_id from headrace_internal.correlator c
    join headrace_internal.caller_level k on k.namespace = c.namespace and k.level = 'consume');

-- The state of correlators, per key.
create or replace view headrace.correlator_instance with (security_barrier) as
select i.correlator_id, i.key, i.units, i.deadlines, i.deadline, i.started_at, i.seen_at, i.evidence, i.evidence_total,
    i.memory
from headrace_internal.correlator_instance i
where i.correlator_id in (
    select c.correlator_id from headrace_internal.correlator c
    join headrace_internal.caller_level k on k.namespace = c.namespace and k.level = 'consume');

-- Correlators with their state: the active version, its first position, how many keys kept their state, and warnings about names.
create or replace view headrace.correlator_state with (security_barrier) as
select c.correlator_id, c.namespace, c.correlator, c.topic, c.key, c.pattern, c.outputs, c.forget_after, c.evidence_max, c.active,
    c.allow_feedback, c.source, v.version_id, v.version, v.status, v.error, v.since_position, v.since_at, v.written_at, v.written_by,
    v.carried, v.restarted, t.simple,
    nullif(concat_ws('; ', v.warning, case when n.unknown_names <> 'allow' then u.names end), '')
        as warning,
    exists (select from headrace_internal.pause p where p.namespace = c.namespace and p.kind = 'correlator' and p.name = c.correlator) as paused
from headrace_internal.correlator c
join headrace_internal.namespace n on n.namespace = c.namespace
join headrace_internal.correlator_version v on v.correlator_id = c.correlator_id and v.version = c.version
left join headrace_internal.correlator_table t on t.correlator_id = c.correlator_id
-- This repeats headrace_internal.unknown_outputs: a function would run with the reader's rights, which do not reach the tables.
cross join lateral (
    select nullif(string_agg(case
        when o.value ? 'action' and not exists (select from headrace_internal.action a
            where a.namespace = c.namespace and a.action = o.value ->> 'action')
        then format('action "%s" is not registered', o.value ->> 'action')
        when o.value ? 'event' and not exists (select from headrace_internal.event_type e
            where e.namespace = c.namespace and e.event_type = o.value ->> 'event')
        then format('event type "%s" is not registered', o.value ->> 'event') end, ' and ' order by o.key), '') as names
    from jsonb_each(c.outputs) o
) u
where c.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');

-- Outputs of correlators.
create or replace view headrace.correlation with (security_barrier) as
select f.correlation_id, f.topic_id, f.version_id, f.key, f.position, f.event_id, f.token, f.output_at, f.place,
    f.evidence, f.evidence_total, f.becomes, f.name, f.output_id, f.fired_at, f.captured
from headrace_internal.correlation f
where f.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');

-- Outputs of correlators, with names.
create or replace view headrace.correlation_history with (security_barrier) as
select v.namespace, t.topic, v.correlator, v.version, f.key, f.token, f.output_at, f.position, f.event_id, f.place, f.evidence,
    f.evidence_total, f.becomes, f.name, f.output_id, f.correlation_id, f.fired_at, f.captured
from headrace_internal.correlation f
join headrace_internal.correlator_version v on v.version_id = f.version_id
join headrace_internal.topic t on t.topic_id = f.topic_id
where t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
