-- The name of a namespace's action queue in pgmq: hr_<namespace>; see headrace_internal.dead_letter_queue for its dead letters.
create or replace function headrace.queue_name(p_namespace text default null) returns text
language sql stable parallel safe
as $$
    select 'hr_' || headrace.current_namespace(p_namespace)
$$;
