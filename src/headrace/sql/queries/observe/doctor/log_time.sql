-- Topics on the server's clock whose log has times in the future: the clock was ahead and has come back. Log time never goes back, so new
-- events get the newest time there is, and a timer that they start is due that much later. Index: log_position backwards, for each topic.
select 'log time' as check, 'warning' as level,
    format('the log time of topic %%s/%%s is ahead of the clock by %%s: new timers are due that much later',
        t.namespace, t.topic, justify_hours(date_trunc('second', a.ahead))) as message,
    format('synchronize the clock of the server, and wait until it passes %%s; if that is too long, publish to a new topic',
        to_char(headrace.clock() + a.ahead, 'YYYY-MM-DD HH24:MI:SSOF')) as advice
from headrace_internal.topic t
cross join lateral (
    select greatest(h.appended_at, t.timers_to) - headrace.clock() as ahead
    from headrace_internal.read_head(t.topic_id, t.clock, t.time_partition) h
) a
where t.clock = 'server' and a.ahead > make_interval(secs => %(ahead_max_s)s)
order by t.namespace, t.topic;
