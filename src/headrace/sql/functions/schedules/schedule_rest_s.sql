-- How long a ticker may sleep: seconds until the next tick is due, or until a plan must be extended; null: nothing to wait for.
-- Index: schedule_due_pkey.
create or replace function headrace_internal.schedule_rest_s(p_standby_s double precision) returns double precision
language sql stable
as $$
    select extract(epoch from greatest(headrace.clock(), least(min(w.wake_at), headrace.clock() + interval '1 day')) - headrace.clock())
        ::double precision
    from headrace_internal.schedule s
    left join lateral (
        -- Bounded: a tick at the end of time would overflow, and with it the wait of all schedules.
        select greatest(least(d.tick_at, headrace.clock() + interval '1 day') + make_interval(secs => case when s.cron_job_id is null then 0 else p_standby_s end), s.retry_at)
        from headrace_internal.schedule_due d where d.schedule_id = s.schedule_id order by d.tick_at limit 1
    ) n (next_at) on true
    cross join lateral (values (n.next_at), (nullif(s.replan_at, 'infinity'))) w (wake_at)
    where s.active
    having min(w.wake_at) is not null
$$;
