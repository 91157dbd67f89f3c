-- Lets a paused schedule continue from now.
create or replace function headrace.resume_schedule(p_schedule text, p_namespace text default null) returns void
language sql volatile
as $$
    update headrace.schedule s set active = true where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace)
$$;
