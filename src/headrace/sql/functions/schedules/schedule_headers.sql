-- The headers a scheduled event carries beside its own.
create or replace function headrace_internal.schedule_headers(p_schedule_id integer, p_schedule text, p_tick_at timestamptz) returns jsonb
language sql stable parallel safe
-- The tick's text does not hang on the session's time zone.
set timezone = 'UTC'
as $$
    select jsonb_build_object('scheduled_task_id', p_schedule_id, 'schedule', p_schedule, 'scheduled_at', p_tick_at)
$$;
