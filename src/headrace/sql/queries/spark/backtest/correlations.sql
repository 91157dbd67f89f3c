-- Outputs of correlators in a range of a topic's positions; outputs of timers by the range's time.
-- Indexes: correlation_position, correlation_timer.
select v.correlator as name, f.token, f.key, f.position, f.output_at as time, f.event_id::text as event_id, f.evidence, f.evidence_total
from headrace.correlation f
join headrace.correlator_version v on v.version_id = f.version_id
where f.topic_id = %(topic_id)s and v.namespace = headrace.current_namespace(%(namespace)s) and v.correlator = any (%(names)s::text[])
    and (f.position >= %(first)s and f.position < %(until)s
        or f.position is null and f.output_at >= %(from_at)s and f.output_at <= %(to_at)s);
