-- Fires the due ticks of a schedule and returns the number of events. However often it is called, a tick is one event, because its
-- row in schedule_tick and its event commit together. A pg_cron job calls this.
-- A tick is on time when it is at most grace_s late. Of the missed ticks 'skip' fires none, 'one' the newest, 'all' the newest
-- missed_max; the others are recorded as skipped. A paused schedule fires nothing.
-- Locks: the schedule row until the end of the transaction. Indexes: schedule_due_pkey, schedule_tick_once.
create or replace function headrace.run_schedule(
    p_schedule_id integer, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule record;
    v_tick_at  timestamptz;
    v_fired    integer := 0;
begin
    perform headrace_internal.authorize_id(p_caller, 'admin', 'schedule', p_schedule_id);
    select s.uid, s.active, s.missed, s.missed_max, s.grace_s, s.error into v_schedule
    from headrace_internal.schedule s where s.schedule_id = p_schedule_id for no key update;
    if not found then
        raise exception 'there is no schedule with id %', p_schedule_id using errcode = 'HR130';
    end if;
    if not v_schedule.active then
        return 0;
    end if;
    for v_tick_at in
        with due as (
            delete from headrace_internal.schedule_due d
            where d.schedule_id = p_schedule_id and d.tick_at <= headrace.clock()
            returning d.tick_at, d.tick_at < headrace.clock() - make_interval(secs => v_schedule.grace_s) as missed
        ), decided as (
            select d.tick_at,
                not d.missed or count(*) filter (where d.missed) over (order by d.tick_at desc) <= case v_schedule.missed
                    when 'all' then v_schedule.missed_max when 'one' then 1 else 0 end as fires
            from due d
        ), ticked as (
            insert into headrace_internal.schedule_tick (schedule_id, tick_at, outcome, event_id)
            select p_schedule_id, d.tick_at, case when d.fires then 'fired' else 'skipped' end,
                case when d.fires then headrace_internal.schedule_event_id(v_schedule.uid, d.tick_at) end
            from decided d
            on conflict on constraint schedule_tick_once do nothing
            returning tick_at, outcome
        )
        select t.tick_at from ticked t where t.outcome = 'fired' order by t.tick_at
    loop
        perform headrace_internal.publish_tick(p_schedule_id, v_tick_at);
        v_fired := v_fired + 1;
    end loop;
    if v_schedule.error is not null and v_fired > 0 then
        update headrace_internal.schedule s set error = null, attempts = 0, retry_at = null where s.schedule_id = p_schedule_id;
    end if;
    return v_fired;
end
$$;
