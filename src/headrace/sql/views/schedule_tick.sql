-- Past ticks of schedules.
create or replace view headrace.schedule_tick with (security_barrier) as
select s.schedule_id, s.tick_at, s.outcome, s.event_id, s.fired_at
from headrace_internal.schedule_tick s
where s.schedule_id in (
    select s.schedule_id from headrace_internal.schedule s
    join headrace_internal.caller_level k on k.namespace = s.namespace and k.level = 'consume');
