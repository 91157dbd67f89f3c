-- name: active_schedules
-- Selects the schedules that need a pg_cron job, and the job recorded for each.
select s.schedule_id, s.cron, s.zone, s.cron_job_id from headrace_internal.schedule s where s.active order by s.schedule_id;

-- name: cron_home
-- Selects the database of pg_cron (null if it is not loaded), its time zone, and the name of this database.
select nullif(current_setting('cron.database_name', true), '') as home,
    coalesce(nullif(current_setting('cron.timezone', true), ''), 'GMT') as zone, current_database()::text as database;

-- name: cron_jobs
-- Selects the pg_cron jobs of one database's schedules. Run it in pg_cron's database.
select j.jobid, j.jobname, j.schedule from cron.job j where starts_with(j.jobname, %(prefix)s) and j.database = %(database)s;

-- name: fail
-- Records that a schedule could not be fired. Its ticks stay due and are tried again after a growing pause, at most 5 minutes.
update headrace_internal.schedule s
set error = left(%(error)s, 10000), attempts = least(s.attempts, 1000000) + 1,
    retry_at = headrace.clock() + make_interval(secs => least(300, 2 ^ least(s.attempts, 30)))
where s.schedule_id = %(schedule_id)s;

-- name: mark_invalid
-- Marks a schedule whose expression cannot be planned. It is planned again when it is changed.
update headrace_internal.schedule s set error = left(%(error)s, 10000), replan_at = 'infinity'
where s.schedule_id = %(schedule_id)s and s.cron = %(cron)s and s.zone = %(zone)s;

-- name: record_job
-- Records which pg_cron job fires a schedule; null: none.
update headrace_internal.schedule s set cron_job_id = %(job_id)s
where s.schedule_id = %(schedule_id)s and s.cron_job_id is distinct from %(job_id)s;

-- name: rest_s
-- Selects how long a ticker may sleep: seconds until the next tick is due, or until a plan must be extended; no row: nothing to wait for.
-- Index: schedule_due_pkey.
select extract(epoch from greatest(headrace.clock(), least(min(w.wake_at), headrace.clock() + interval '1 day')) - headrace.clock())
    ::double precision
from headrace_internal.schedule s
left join lateral (
    -- Bounded: a tick at the end of time would overflow, and with it the wait of all schedules.
    select greatest(least(d.tick_at, headrace.clock() + interval '1 day')
        + make_interval(secs => case when s.cron_job_id is null then 0 else %(standby_s)s end), s.retry_at)
    from headrace_internal.schedule_due d where d.schedule_id = s.schedule_id order by d.tick_at limit 1
) n (next_at) on true
cross join lateral (values (n.next_at), (nullif(s.replan_at, 'infinity'))) w (wake_at)
where s.active
having min(w.wake_at) is not null;

-- name: ticks
-- Selects the past ticks of a schedule, newest first. Index: schedule_tick_once, backwards.
select k.tick_at, k.outcome, k.event_id, k.fired_at
from headrace.schedule_tick k
where k.schedule_id = headrace.schedule_id(%(schedule)s, %(namespace)s)
order by k.tick_at desc
limit %(limit)s;

-- name: to_plan
-- Selects an active schedule whose plan must reach further, with the current time.
select s.schedule_id, s.cron, s.zone, s.planned_until, headrace.clock() as now
from headrace.schedule s
where s.active and s.replan_at <= headrace.clock() and s.schedule_id = %(schedule_id)s;

-- name: trim_ticks
-- Deletes old ticks. They are only a record: planning never goes back.
delete from headrace_internal.schedule_tick t where t.tick_at < headrace.clock() - %(keep)s;

-- name: unplanned
-- Active schedules whose plan must reach further, those that wait longest first. One that cannot be planned pauses: see
-- headrace_internal.failure. Only names: a time that Python cannot read must not hide the other schedules.
select s.schedule_id, s.namespace, s.schedule
from headrace_internal.schedule s
where s.active and s.replan_at <= headrace.clock()
    and not exists (select from headrace_internal.failure f
        where f.kind = 'schedule plan' and f.namespace = s.namespace and f.name = s.schedule and f.retry_at > headrace.clock())
order by s.replan_at
limit 100;
