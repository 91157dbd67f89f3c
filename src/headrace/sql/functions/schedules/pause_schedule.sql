-- Stops a schedule. Ticks during the pause do not count as missed.
create or replace function headrace.pause_schedule(p_schedule text, p_namespace text default null) returns void
language sql volatile
as $$
    update headrace.schedule s set active = false where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace)
$$;
