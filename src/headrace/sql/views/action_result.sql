-- Actions that have ended.
create or replace view headrace.action_result with (security_barrier) as
select r.ended_at, r.action_id, r.node_id, r.duration_s, r.attempts, r.namespace, r.action, r.outcome, r.event_id
from headrace_internal.action_result r
where r.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
