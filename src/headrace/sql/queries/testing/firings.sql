-- The firings of the rules of a namespace, oldest first, with their events. Index: firing_once.
select v.rule, v.version, t.topic, f.position, f.event_id, f.action, f.action_id, f.fired_at
from headrace.firing f
join headrace.rule_version v on v.version_id = f.rule_version_id
join headrace.topic t on t.topic_id = f.topic_id
where t.namespace = headrace.current_namespace(%(namespace)s) and (%(rule)s::text is null or v.rule = %(rule)s)
order by f.firing_id
