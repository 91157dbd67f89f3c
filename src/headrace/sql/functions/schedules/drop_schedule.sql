-- Drops a schedule with its record of ticks. Its events stay in the log.
create or replace function headrace.drop_schedule(p_schedule text, p_namespace text default null) returns void
language sql volatile
as $$
    delete from headrace.schedule s where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace);
    -- A node removes its pg_cron job.
    select pg_notify('headrace_schedule', '')
$$;
