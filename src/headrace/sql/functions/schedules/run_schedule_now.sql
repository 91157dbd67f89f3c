-- Fires a schedule's event now, also while it is paused, and returns the event's id. Its ticks go on as they were.
create or replace function headrace.run_schedule_now(p_schedule text, p_namespace text default null) returns uuid
language plpgsql volatile
as $$
declare
    v_schedule_id integer := headrace_internal.schedule_id(p_schedule, p_namespace);
    v_now         timestamptz := headrace.clock();
begin
    perform from headrace.schedule s where s.schedule_id = v_schedule_id for no key update;
    insert into headrace_internal.schedule_tick (schedule_id, tick_at, outcome, event_id)
    select s.schedule_id, v_now, 'manual', headrace_internal.schedule_event_id(s.uid, v_now)
    from headrace.schedule s where s.schedule_id = v_schedule_id
    on conflict on constraint schedule_tick_once do nothing;
    return headrace_internal.publish_tick(v_schedule_id, v_now);
end
$$;
