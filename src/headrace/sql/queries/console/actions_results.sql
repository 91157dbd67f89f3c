-- The actions of a namespace that ended last, of any outcome or one, newest first. Reads the public view only.
-- Index: action_result_age, backwards; at most %(rows)s are looked at.
select r.action_id, r.action, r.outcome, r.attempts, r.duration_s, r.ended_at
from (
    select r.action_id, r.action, r.outcome, r.attempts, r.duration_s, r.ended_at
    from headrace.action_result r
    where r.namespace = headrace.current_namespace(%(namespace)s)
    order by r.ended_at desc
    limit %(rows)s) r
where (%(outcome)s::text is null or r.outcome = %(outcome)s) and (%(action)s::text is null or r.action = %(action)s)
order by r.ended_at desc
limit %(limit)s;
