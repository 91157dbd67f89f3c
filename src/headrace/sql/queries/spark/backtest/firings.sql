-- Firings of rules in a range of a topic's positions, of all versions.
-- Index: firing_position.
select v.rule as name, f.position, f.event_id::text as event_id
from headrace.firing f
join headrace.rule_version v on v.version_id = f.rule_version_id
where f.topic_id = %(topic_id)s and f.position >= %(first)s and f.position < %(until)s
    and v.namespace = headrace.current_namespace(%(namespace)s) and v.rule = any (%(names)s::text[]);
