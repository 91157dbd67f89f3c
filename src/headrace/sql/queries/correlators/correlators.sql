-- The correlators of a namespace with their state.
select c.correlator as name, c.topic, c.pattern, c.outputs, c.key, c.forget_after, c.evidence_max, c.active, c.allow_feedback,
    c.correlator_id, c.version_id, c.namespace, c.source, c.version, c.status, c.error, c.warning, c.since_position, c.carried,
    c.restarted, c.written_at, c.written_by, c.paused
from headrace.correlator_state c
where c.namespace = headrace.current_namespace(%(namespace)s)
    and (%(topic)s::text is null or c.topic = %(topic)s)
    and (%(correlator)s::text is null or c.correlator = %(correlator)s)
order by c.correlator;
