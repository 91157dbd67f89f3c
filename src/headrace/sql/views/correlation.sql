-- Outputs of correlators.
create or replace view headrace.correlation with (security_barrier) as
select f.correlation_id, f.topic_id, f.version_id, f.key, f.position, f.event_id, f.token, f.output_at, f.place,
    f.evidence, f.evidence_total, f.becomes, f.name, f.output_id, f.fired_at, f.captured
from headrace_internal.correlation f
where f.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');
