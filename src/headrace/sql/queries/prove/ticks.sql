-- The past ticks of the schedule.
select k.tick_at, k.outcome, k.event_id
from headrace_internal.schedule_tick k join headrace_internal.schedule s on s.schedule_id = k.schedule_id
where s.schedule = %(schedule)s order by k.tick_at;
