-- Writes ticks that the library has computed from p_from on. False, and nothing is written, when the schedule has changed
-- meanwhile or another session has planned. Ticks older than the plan are never added again, so none can fire twice.
-- Locks: the schedule row; it raises lock_not_available (55P03) instead of waiting, because the planner serves all namespaces.
create or replace function headrace.plan_schedule(
    p_schedule_id integer,
    p_cron        text,
    p_zone        text,
    p_from        timestamptz,
    p_ticks       timestamptz[],
    p_until       timestamptz,
    p_replan_at   timestamptz,
    p_caller      headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'admin', 'schedule', p_schedule_id);
    perform from headrace_internal.schedule s where s.schedule_id = p_schedule_id for no key update nowait;
    update headrace_internal.schedule s set planned_until = p_until, replan_at = p_replan_at
    where s.schedule_id = p_schedule_id and s.cron = p_cron and s.zone = p_zone and s.planned_until = p_from and s.active;
    if not found then
        return false;
    end if;
    insert into headrace_internal.schedule_due (schedule_id, tick_at)
    select p_schedule_id, t.tick_at from unnest(p_ticks) t (tick_at) where t.tick_at > p_from
    on conflict on constraint schedule_due_pkey do nothing;
    return true;
end
$$;
