-- Fires the due ticks of a schedule and returns how many events that made. Whoever calls, however often: a tick is one
-- event, because its row in schedule_tick and its event commit together. This is what a pg_cron job calls.
-- On time is what is at most grace_s late. Of the missed ticks 'skip' fires none, 'one' the newest, 'all' the newest
-- missed_max; the others are recorded as skipped. A paused schedule fires nothing.
-- Locks: the schedule row until the end of the transaction. Indexes: schedule_due_pkey, schedule_tick_once.
create or replace function headrace.run_schedule(p_schedule_id integer) returns integer
language plpgsql volatile
as $$
declare
    v_schedule record;
    v_tick_at  timestamptz;
    v_fired    integer := 0;
begin
    select s.uid, s.active, s.missed, s.missed_max, s.grace_s, s.error into v_schedule
    from headrace.schedule s where s.schedule_id = p_schedule_id for no key update;
    if not found then
        raise exception 'there is no schedule with id %', p_schedule_id using errcode = 'HR130';
    end if;
    if not v_schedule.active then
        return 0;
    end if;
    for v_tick_at in
        with due as (
            delete from headrace.schedule_due d
            where d.schedule_id = p_schedule_id and d.tick_at <= headrace.clock()
            returning d.tick_at, d.tick_at < headrace.clock() - make_interval(secs => v_schedule.grace_s) as missed
        ), decided as (
            select d.tick_at,
                not d.missed or count(*) filter (where d.missed) over (order by d.tick_at desc) <= case v_schedule.missed
                    when 'all' then v_schedule.missed_max when 'one' then 1 else 0 end as fires
            from due d
        ), ticked as (
            insert into headrace.schedule_tick (schedule_id, tick_at, outcome, event_id)
            select p_schedule_id, d.tick_at, case when d.fires then 'fired' else 'skipped' end,
                case when d.fires then headrace.schedule_event_id(v_schedule.uid, d.tick_at) end
            from decided d
            on conflict on constraint schedule_tick_once do nothing
            returning tick_at, outcome
        )
        select t.tick_at from ticked t where t.outcome = 'fired' order by t.tick_at
    loop
        perform headrace.publish_tick(p_schedule_id, v_tick_at);
        v_fired := v_fired + 1;
    end loop;
    if v_schedule.error is not null and v_fired > 0 then
        update headrace.schedule s set error = null, attempts = 0, retry_at = null where s.schedule_id = p_schedule_id;
    end if;
    return v_fired;
end
$$;

-- Fires a schedule's event now, also while it is paused, and returns the event's id. Its ticks go on as they were.
create or replace function headrace.run_schedule_now(p_schedule text, p_namespace text default null) returns uuid
language plpgsql volatile
as $$
declare
    v_schedule_id integer := headrace.schedule_id(p_schedule, p_namespace);
    v_now         timestamptz := headrace.clock();
begin
    perform from headrace.schedule s where s.schedule_id = v_schedule_id for no key update;
    insert into headrace.schedule_tick (schedule_id, tick_at, outcome, event_id)
    select s.schedule_id, v_now, 'manual', headrace.schedule_event_id(s.uid, v_now)
    from headrace.schedule s where s.schedule_id = v_schedule_id
    on conflict on constraint schedule_tick_once do nothing;
    return headrace.publish_tick(v_schedule_id, v_now);
end
$$;

-- Claims the schedule whose tick has waited longest; null when none is due. Where pg_cron fires a schedule it has
-- p_standby_s seconds to do so.
-- Locks: the schedule row, skip locked. Index: schedule_due_next.
create or replace function headrace.claim_schedule(p_standby_s double precision) returns integer
language sql volatile
as $$
    select s.schedule_id
    from headrace.schedule_due d
    join headrace.schedule s on s.schedule_id = d.schedule_id
    where d.tick_at <= headrace.clock() and s.active
        and (s.cron_job_id is null or d.tick_at <= headrace.clock() - make_interval(secs => p_standby_s))
        and (s.retry_at is null or s.retry_at <= headrace.clock())
    order by d.tick_at
    limit 1
    for no key update of s skip locked
$$;

-- Records that a schedule could not be fired. Its ticks stay due and are tried again after a growing pause, at most 5 minutes.
create or replace function headrace.fail_schedule(p_schedule_id integer, p_error text) returns void
language sql volatile
as $$
    update headrace.schedule s
    set error = left(p_error, 10000), attempts = s.attempts + 1,
        retry_at = headrace.clock() + make_interval(secs => least(300, 2 ^ least(s.attempts, 30)))
    where s.schedule_id = p_schedule_id
$$;
