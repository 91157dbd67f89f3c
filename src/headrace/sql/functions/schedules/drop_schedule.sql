-- Drops a schedule with its record of ticks. Its events stay in the log.
create or replace function headrace.drop_schedule(
    p_schedule text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize(p_caller, 'admin', p_namespace);
    delete from headrace_internal.schedule s where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace);
    -- A node removes its pg_cron job.
    perform headrace_internal.notify('headrace_schedule', '');
end
$$;
