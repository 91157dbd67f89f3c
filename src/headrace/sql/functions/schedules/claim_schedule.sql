-- Claims the schedule whose tick has waited longest; null if none is due. Namespaces take turns: one of the namespace of p_last_id, the
-- schedule that was claimed before, comes after those of others; and one whose last attempt has failed after all others, since it
-- may take long to fail again. Where pg_cron fires a schedule it has p_standby_s seconds to do so. One that has failed pauses: see
-- headrace_internal.failure. Locks: the schedule row, skip locked. Index: schedule_due_next.
create or replace function headrace_internal.claim_schedule(p_standby_s double precision, p_last_id integer default null) returns integer
language plpgsql volatile
as $$
declare
    v_last        text := (select s.namespace from headrace_internal.schedule s where s.schedule_id = p_last_id);
    v_has_failed  boolean;
    v_is_last     boolean;
    v_schedule_id integer;
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
