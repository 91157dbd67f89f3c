-- Planned ticks of schedules.
create or replace view headrace.schedule_due with (security_barrier) as
select s.schedule_id, s.tick_at
from headrace_internal.schedule_due s
where s.schedule_id in (
    select s.schedule_id from headrace_internal.schedule s
    join headrace_internal.caller_level k on k.namespace = s.namespace and k.level = 'consume');
