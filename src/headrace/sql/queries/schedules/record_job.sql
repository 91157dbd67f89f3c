-- Records which pg_cron job fires a schedule; null: none.
update headrace_internal.schedule s set cron_job_id = %(job_id)s
where s.schedule_id = %(schedule_id)s and s.cron_job_id is distinct from %(job_id)s;
