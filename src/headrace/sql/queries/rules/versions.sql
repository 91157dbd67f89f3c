-- The versions of a rule, also of a dropped one, oldest first.
select v.rule_id, v.version, t.topic, v.event_type, v.condition, v.action, v.priority, v.delay_s, v.timing, v.active, v.dropped,
    v.written_at, v.written_by, v.status, v.error, v.since_position, v.until_position
from headrace.rule_version v
join headrace.topic t on t.topic_id = v.topic_id
where v.namespace = headrace.current_namespace(%(namespace)s) and v.rule = %(rule)s
order by v.rule_id, v.version;
