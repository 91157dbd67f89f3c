-- What users write of a schedule: headrace.write_definition writes these columns and no others.
create or replace view headrace_internal.schedule_fields as
select r.namespace, r.schedule, r.cron, r.zone, r.topic, r.type, r.payload, r.key, r.headers, r.active, r.source, r.missed,
    r.missed_max, r.grace_s
from headrace_internal.schedule r;

-- Schedules. Admins of a namespace may insert and update rows, and drop one by `set dropped = true`.
create or replace view headrace.schedule as
select r.schedule_id, r.uid, r.namespace, r.schedule, r.cron, r.zone, r.topic, r.topic_id, r.type, r.payload, r.key, r.headers,
    r.active, r.source, r.missed, r.missed_max, r.grace_s, r.planned_until, r.replan_at, r.cron_job_id, r.error,
    r.attempts, r.retry_at, r.created_at,
    false as dropped
from headrace_internal.readable_definitions(null::headrace_internal.schedule) r;

create or replace trigger schedule_write instead of insert or update or delete on headrace.schedule
for each row execute function headrace_internal.write_view();

-- Planned ticks of schedules.
create or replace view headrace.schedule_due with (security_barrier) as
select s.schedule_id, s.tick_at
from headrace_internal.schedule_due s
where s.schedule_id in (
    select s.schedule_id from headrace_internal.schedule s
    join headrace_internal.caller_level k on k.namespace = s.namespace and k.level = 'consume');

-- Past ticks of schedules.
create or replace view headrace.schedule_tick with (security_barrier) as
select s.schedule_id, s.tick_at, s.outcome, s.event_id, s.fired_at
from headrace_internal.schedule_tick s
where s.schedule_id in (
    select s.schedule_id from headrace_internal.schedule s
    join headrace_internal.caller_level k on k.namespace = s.namespace and k.level = 'consume');

-- Schedules with their state, each with its next and its last tick. Indexes: schedule_due_pkey, schedule_tick_once backwards.
create or replace view headrace.schedule_state with (security_barrier) as
select s.schedule_id, s.namespace, s.schedule, s.cron, s.zone, s.topic, s.type, s.payload, s.key, s.headers, s.active, s.source,
    s.missed, s.missed_max, s.grace_s,
    case when not s.active then 'paused' when s.replan_at = 'infinity' then 'invalid'
        when s.error is not null then 'failing' else 'active' end as state,
    s.error, s.cron_job_id is not null as by_cron, s.planned_until,
    (select d.tick_at from headrace_internal.schedule_due d
        where d.schedule_id = s.schedule_id order by d.tick_at limit 1) as next_tick_at,
    (select f.tick_at from headrace_internal.schedule_tick f
        where f.schedule_id = s.schedule_id and f.outcome = 'fired' order by f.tick_at desc limit 1) as last_tick_at
from headrace_internal.schedule s
where s.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
