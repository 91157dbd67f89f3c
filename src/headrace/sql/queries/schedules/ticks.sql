-- What became of a schedule's ticks, newest first. Index: schedule_tick_once, backwards.
select k.tick_at, k.outcome, k.event_id, k.fired_at
from headrace_internal.schedule_tick k
where k.schedule_id = headrace_internal.schedule_id(%(schedule)s, %(namespace)s)
order by k.tick_at desc
limit %(limit)s;
