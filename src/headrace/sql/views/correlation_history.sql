-- Outputs of correlators, with names.
create or replace view headrace.correlation_history with (security_barrier) as
select v.namespace, t.topic, v.correlator, v.version, f.key, f.token, f.output_at, f.position, f.event_id, f.place, f.evidence,
    f.evidence_total, f.becomes, f.name, f.output_id, f.correlation_id, f.fired_at, f.captured
from headrace_internal.correlation f
join headrace_internal.correlator_version v on v.version_id = f.version_id
join headrace_internal.topic t on t.topic_id = f.topic_id
where t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
