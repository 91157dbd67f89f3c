-- The firings on an event. Index: firing_once.
select f.firing_id, v.rule, v.version, v.timing, f.action, f.action_id, f.fired_at
from headrace.firing f
join headrace.rule_version v on v.version_id = f.rule_version_id
where f.event_id = %(event_id)s and f.topic_id = %(topic_id)s
order by f.firing_id;
