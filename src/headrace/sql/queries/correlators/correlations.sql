-- The newest outputs of a correlator, also of a dropped one, the oldest of them first. Index: correlation_once.
select h.correlator, h.version, h.topic, h.key, h.token, h.output_at, h.position, h.event_id, h.evidence, h.evidence_total,
    h.becomes, h.name, h.output_id, h.captured
from (
    select h.correlation_id, h.correlator, h.version, h.topic, h.key, h.token, h.output_at, h.position, h.event_id, h.evidence,
        h.evidence_total, h.becomes, h.name, h.output_id, h.captured
    from headrace.correlation_history h
    where h.namespace = headrace.current_namespace(%(namespace)s) and h.correlator = %(correlator)s
        and (%(key)s::text is null or h.key = %(key)s)
    order by h.correlation_id desc
    limit %(limit)s
) h
order by h.correlation_id
