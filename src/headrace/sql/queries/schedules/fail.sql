-- Records that a schedule could not be fired. Its ticks stay due and are tried again after a growing pause, at most 5 minutes.
update headrace_internal.schedule s
set error = left(%(error)s, 10000), attempts = least(s.attempts, 1000000) + 1,
    retry_at = headrace.clock() + make_interval(secs => least(300, 2 ^ least(s.attempts, 30)))
where s.schedule_id = %(schedule_id)s;
