-- Writes ticks that the library has computed from p_from on. False, and nothing is written, when the schedule has changed
-- meanwhile or another session has planned. Ticks older than the plan are never added again, so none can fire twice.
-- Locks: the schedule row; it raises lock_not_available (55P03) instead of waiting, because the planner serves all namespaces.
create or replace function headrace.plan_schedule(
    p_schedule_id bigint,
    p_cron        text,
    p_zone        text,
    p_from        timestamptz,
    p_ticks       timestamptz[],
    p_until       timestamptz,
    p_replan_at   timestamptz,
    p_caller      headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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

-- Returns the next ticks of a schedule, as far as they are planned. Index: schedule_due_pkey.
-- Calls: schedule_id.
create or replace function headrace.next_ticks(
    p_schedule text, p_limit integer default 10, p_namespace text default null, p_caller headrace_internal.caller default current_user
)
returns table (tick_at timestamptz, local_time timestamp)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.authorize(p_caller, 'consume', p_namespace);
    select d.tick_at, d.tick_at at time zone s.zone
    from headrace_internal.schedule s
    join headrace_internal.schedule_due d on d.schedule_id = s.schedule_id
    where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace)
    order by d.tick_at
    limit p_limit
$$;

-- Returns the id of a tick's event: a uuid (version 8) from schedule and moment. It is the same whoever fires the tick, so the log drops a
-- second event as a repetition.
create or replace function headrace_internal.schedule_event_id(p_uid uuid, p_tick_at timestamptz) returns uuid
language sql immutable strict parallel safe
as $$
    select encode(set_bit(set_bit(set_byte(h.hash, 6, get_byte(h.hash, 6) & 15 | 128), 71, 1), 70, 0), 'hex')::uuid
    from (
        select substring(sha256(uuid_send(p_uid) || int8send((extract(epoch from p_tick_at) * 1000000)::bigint)) for 16)
    ) h (hash)
$$;

-- Publishes the event of a tick that the caller has just recorded.
-- Calls: publish, schedule_headers, schedule_event_id.
create or replace function headrace_internal.publish_tick(p_schedule_id bigint, p_tick_at timestamptz) returns uuid
language sql volatile
as $$
    select headrace.publish(t.topic, s.type, s.payload, s.key,
        s.headers || headrace_internal.schedule_headers(s.schedule_id, s.schedule, p_tick_at),
        headrace_internal.schedule_event_id(s.uid, p_tick_at), p_producer => 'schedule ' || s.schedule, p_namespace => t.namespace)
    from headrace_internal.schedule s
    join headrace_internal.topic t on t.topic_id = s.topic_id
    where s.schedule_id = p_schedule_id
$$;

-- Claims the schedule whose tick has waited longest; null if none is due. Namespaces take turns: one of the namespace of p_last_id, the
-- schedule that was claimed before, comes after those of others; and one whose last attempt has failed after all others, since it
-- may take long to fail again. Where pg_cron fires a schedule it has p_standby_s seconds to do so. One that has failed pauses: see
-- headrace_internal.failure. Locks: the schedule row, skip locked. Index: schedule_due_next.
create or replace function headrace_internal.claim_schedule(p_standby_s double precision, p_last_id bigint default null) returns bigint
language plpgsql volatile
as $$
declare
    v_last        text := (select s.namespace from headrace_internal.schedule s where s.schedule_id = p_last_id);
    v_has_failed  boolean;
    v_is_last     boolean;
    v_schedule_id bigint;
begin
    for v_has_failed, v_is_last in values (false, false), (false, true), (true, false), (true, true) loop
        select s.schedule_id into v_schedule_id
        from headrace_internal.schedule_due d
        join headrace_internal.schedule s on s.schedule_id = d.schedule_id
        where d.tick_at <= headrace.clock() and s.active
            and (s.attempts > 0) = v_has_failed and (s.namespace is not distinct from v_last) = v_is_last
            and (s.cron_job_id is null or d.tick_at <= headrace.clock() - make_interval(secs => p_standby_s))
            and (s.retry_at is null or s.retry_at <= headrace.clock())
            and not exists (select from headrace_internal.failure f
                where f.kind = 'schedule' and f.namespace = s.namespace and f.name = s.schedule and f.retry_at > headrace.clock())
        order by d.tick_at
        limit 1
        for no key update of s skip locked;
        exit when found;
    end loop;
    return v_schedule_id;
end
$$;

-- Fires the due ticks of a schedule and returns the number of events. However often it is called, a tick is one event, because its
-- row in schedule_tick and its event commit together. A pg_cron job calls this.
-- A tick is on time when it is at most grace_s late. Of the missed ticks 'skip' fires none, 'one' the newest, 'all' the newest
-- missed_max; the others are recorded as skipped. A paused schedule fires nothing.
-- Locks: the schedule row until the end of the transaction. Indexes: schedule_due_pkey, schedule_tick_once.
-- Calls: schedule_event_id, publish_tick.
create or replace function headrace.run_schedule(
    p_schedule_id bigint, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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

-- Fires a schedule's event now, even while it is paused, and returns the event's id. Its ticks are not affected.
-- Calls: schedule_id, schedule_event_id, publish_tick.
create or replace function headrace.run_schedule_now(
    p_schedule text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
    v_schedule_id bigint := headrace.schedule_id(p_schedule, v_namespace);
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
