-- The newest result of each action of a namespace that has ended, oldest first.
select r.action_id, r.action, r.outcome, r.attempts
from (
    select distinct on (r.action_id) r.action_id, r.action, r.outcome, r.attempts, r.ended_at
    from headrace.action_result r
    where r.namespace = headrace.current_namespace(%(namespace)s)
    order by r.action_id, r.ended_at desc
) r
order by r.ended_at, r.action_id
