-- The schedules that need a pg_cron job, and the job recorded for each.
select s.schedule_id, s.cron, s.zone, s.cron_job_id from headrace_internal.schedule s where s.active order by s.schedule_id;
