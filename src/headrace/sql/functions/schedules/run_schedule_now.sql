-- Fires a schedule's event now, even while it is paused, and returns the event's id. Its ticks are not affected.
create or replace function headrace.run_schedule_now(
    p_schedule text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns uuid
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
    v_schedule_id integer := headrace.schedule_id(p_schedule, v_namespace);
    v_now         timestamptz := headrace.clock();
begin
    perform from headrace_internal.schedule s where s.schedule_id = v_schedule_id for no key update;
    insert into headrace_internal.schedule_tick (schedule_id, tick_at, outcome, event_id)
    select s.schedule_id, v_now, 'manual', headrace_internal.schedule_event_id(s.uid, v_now)
    from headrace_internal.schedule s where s.schedule_id = v_schedule_id
    on conflict on constraint schedule_tick_once do nothing;
    return headrace_internal.publish_tick(v_schedule_id, v_now);
end
$$;
