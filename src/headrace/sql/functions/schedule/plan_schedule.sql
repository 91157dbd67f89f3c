-- Writes ticks that the library has computed from p_from on: false when the schedule has changed meanwhile, or somebody else
-- has planned, and nothing is written. Ticks older than the plan are never added again, so none can fire twice.
-- Locks: the schedule row.
create or replace function headrace.plan_schedule(
    p_schedule_id integer,
    p_cron        text,
    p_zone        text,
    p_from        timestamptz,
    p_ticks       timestamptz[],
    p_until       timestamptz,
    p_replan_at   timestamptz
) returns boolean
language plpgsql volatile
as $$
begin
    update headrace.schedule s set planned_until = p_until, replan_at = p_replan_at
    where s.schedule_id = p_schedule_id and s.cron = p_cron and s.zone = p_zone and s.planned_until = p_from and s.active;
    if not found then
        return false;
    end if;
    insert into headrace.schedule_due (schedule_id, tick_at)
    select p_schedule_id, t.tick_at from unnest(p_ticks) t (tick_at) where t.tick_at > p_from
    on conflict on constraint schedule_due_pkey do nothing;
    return true;
end
$$;

-- Marks a schedule whose expression cannot be planned. It is looked at again when it is changed.
create or replace function headrace.refuse_schedule(p_schedule_id integer, p_cron text, p_zone text, p_error text) returns void
language sql volatile
as $$
    update headrace.schedule s set error = left(p_error, 10000), replan_at = 'infinity'
    where s.schedule_id = p_schedule_id and s.cron = p_cron and s.zone = p_zone
$$;

-- How long a ticker may rest: seconds until the next tick is due, or a plan is to be made longer; null: nothing to wait for.
-- Index: schedule_due_pkey.
create or replace function headrace.schedule_rest_s(p_standby_s double precision) returns double precision
language sql stable
as $$
    select extract(epoch from greatest(headrace.clock(), min(w.wake_at)) - headrace.clock())::double precision
    from headrace.schedule s
    left join lateral (
        select greatest(d.tick_at + make_interval(secs => case when s.cron_job_id is null then 0 else p_standby_s end), s.retry_at)
        from headrace.schedule_due d where d.schedule_id = s.schedule_id order by d.tick_at limit 1
    ) n (next_at) on true
    cross join lateral (values (n.next_at), (nullif(s.replan_at, 'infinity'))) w (wake_at)
    where s.active
    having min(w.wake_at) is not null
$$;

-- Forgets ticks older than p_keep; returns how many. They are a record only: what is planned never goes back.
create or replace function headrace.trim_schedule_ticks(p_keep interval default interval '90 days') returns bigint
language plpgsql volatile
as $$
declare
    v_count bigint;
begin
    delete from headrace.schedule_tick t where t.tick_at < headrace.clock() - p_keep;
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
