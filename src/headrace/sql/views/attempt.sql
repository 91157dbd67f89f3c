-- Failed attempts of actions.
create or replace view headrace.attempt with (security_barrier) as
select a.failed_at, a.action_id, a.node_id, a.duration_s, a.attempt, a.namespace, a.action, a.error, a.traceback,
    a.follows, a.retry_at, a.attempts_max
from headrace_internal.attempt a
where a.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
