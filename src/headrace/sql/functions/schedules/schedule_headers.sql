-- The headers that a scheduled event has in addition to its own.
create or replace function headrace_internal.schedule_headers(p_schedule_id integer, p_schedule text, p_tick_at timestamptz) returns jsonb
language sql stable parallel safe
-- The text of the tick must not depend on the session's time zone.
set timezone = 'UTC'
as $$
    select jsonb_build_object('scheduled_task_id', p_schedule_id, 'schedule', p_schedule, 'scheduled_at', p_tick_at)
$$;
