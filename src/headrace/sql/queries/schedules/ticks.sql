-- The past ticks of a schedule, newest first. Index: schedule_tick_once, backwards.
select k.tick_at, k.outcome, k.event_id, k.fired_at
from headrace.schedule_tick k
where k.schedule_id = headrace.schedule_id(%(schedule)s, %(namespace)s)
order by k.tick_at desc
limit %(limit)s;
