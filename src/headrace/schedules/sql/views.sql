-- Schedules. Admins of a namespace may insert and update rows, and drop one by `set dropped = true`.
create or replace view headrace.schedule as
select r.schedule_id, r.uid, r.namespace, r.schedule, r.cron, r.zone, r.topic_id, r.type, r.payload, r.key, r.headers,
    r.active, r.source, r.missed, r.missed_max, r.grace_s, r.planned_until, r.replan_at, r.cron_job_id, r.error,
    r.attempts, r.retry_at, r.created_at,
    false as dropped
from headrace_internal.readable_schedules() r;

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
