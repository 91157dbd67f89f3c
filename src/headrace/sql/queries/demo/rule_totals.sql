-- How often each rule fired, and how its actions ended. Index: action_result_action.
select r.rule, r.action, count(f.firing_id) as firings, count(*) filter (where e.outcome = 'done') as done,
    count(*) filter (where e.outcome = 'dead') as dead
from headrace_internal.rule r
left join headrace_internal.rule_version v on v.rule_id = r.rule_id
left join headrace_internal.firing f on f.rule_version_id = v.version_id
left join headrace_internal.action_result e on e.action_id = f.action_id
group by r.rule, r.action
order by r.rule;
