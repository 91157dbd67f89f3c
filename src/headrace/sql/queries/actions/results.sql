-- The results of some actions, oldest first. Index: action_result_action.
select r.action_id, r.action, r.outcome, r.attempts, r.duration_s, r.node_id, r.ended_at, r.event_id
from headrace.action_result r
where r.action_id = any (%(action_ids)s::uuid[])
    and r.namespace = headrace.current_namespace(%(namespace)s)
order by r.ended_at;
