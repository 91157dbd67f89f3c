-- What the correlators of a namespace have pushed, oldest first.
select h.correlator, h.version, h.topic, h.key, h.token, h.output_at, h.position, h.event_id, h.evidence, h.evidence_total,
    h.becomes, h.name, h.output_id
from headrace.correlation_history h
where h.namespace = headrace.current_namespace(%(namespace)s) and (%(correlator)s::text is null or h.correlator = %(correlator)s)
order by h.correlation_id
