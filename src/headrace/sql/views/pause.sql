-- What is paused: consumers (also the rules of a topic), rules, correlators, relays, actions, queues and schedules.
create or replace view headrace.pause with (security_barrier) as
select p.namespace, p.kind, p.name, p.reason, p.paused_at, p.paused_by
from (
    select p.namespace, p.kind, p.name, p.reason, p.paused_at, p.paused_by from headrace_internal.pause p
    union all
    select s.namespace, 'schedule', s.schedule, null, null, null from headrace_internal.schedule s where not s.active
) p
where p.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
