-- The failed attempts of some actions, oldest first. Index: attempt_action.
select a.action_id, a.action, a.attempt, a.error, a.traceback, a.follows, a.retry_at, a.duration_s, a.node_id, a.failed_at, a.attempts_max
from headrace.attempt a
where a.action_id = any (%(action_ids)s::uuid[])
    and a.namespace = headrace.current_namespace(%(namespace)s)
order by a.failed_at;
