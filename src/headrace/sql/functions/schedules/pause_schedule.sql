-- Stops a schedule. Ticks during the pause do not count as missed.
create or replace function headrace.pause_schedule(
    p_schedule text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize(p_caller, 'admin', p_namespace);
    update headrace_internal.schedule s set active = false where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace);
end
$$;
