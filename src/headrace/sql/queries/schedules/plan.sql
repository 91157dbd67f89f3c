-- Writes the ticks computed for one schedule.
select headrace_internal.plan_schedule(
    %(schedule_id)s, %(cron)s, %(zone)s, %(planned_until)s, %(ticks)s::timestamptz[], %(until)s, %(replan_at)s);
