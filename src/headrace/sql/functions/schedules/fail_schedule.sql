-- Records that a schedule could not be fired. Its ticks stay due and are tried again after a growing pause, at most 5 minutes.
create or replace function headrace_internal.fail_schedule(p_schedule_id integer, p_error text) returns void
language sql volatile
as $$
    update headrace.schedule s
    set error = left(p_error, 10000), attempts = s.attempts + 1,
        retry_at = headrace.clock() + make_interval(secs => least(300, 2 ^ least(s.attempts, 30)))
    where s.schedule_id = p_schedule_id
$$;
