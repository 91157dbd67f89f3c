-- The firings of rules, without the one whose data is erased.
select v.rule, t.topic, f.position, f.event_id, f.action_id
from headrace_internal.firing f
join headrace_internal.rule_version v on v.version_id = f.rule_version_id
join headrace_internal.topic t on t.topic_id = f.topic_id
where t.namespace = 'default' and v.rule <> 'greet';
