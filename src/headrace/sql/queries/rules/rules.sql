-- The rules of a namespace with their state.
select r.rule as name, r.topic, r.event_type, r.action, r.condition, r.priority, r.delay_s, r.timing, r.active,
    r.namespace, r.source, r.version, r.status, r.error, r.warning, r.since_position, r.written_at, r.written_by, r.paused
from headrace.rule_state r
where r.namespace = headrace.current_namespace(%(namespace)s)
    and (%(topic)s::text is null or r.topic = %(topic)s)
    and (%(rule)s::text is null or r.rule = %(rule)s)
order by r.rule;
