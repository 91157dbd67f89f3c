-- Stops a schedule. Ticks that pass meanwhile are not missed runs: they do not count at all.
create or replace function headrace.pause_schedule(p_schedule text, p_namespace text default null) returns void
language sql volatile
as $$
    update headrace.schedule s set active = false where s.schedule_id = headrace_internal.schedule_id(p_schedule, p_namespace)
$$;
