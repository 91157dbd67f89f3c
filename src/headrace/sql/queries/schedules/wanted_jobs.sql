-- The schedules that want a pg_cron job, and the one each is known to have.
select s.schedule_id, s.cron, s.zone, s.cron_job_id from headrace.schedule s where s.active order by s.schedule_id;
