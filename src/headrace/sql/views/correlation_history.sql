-- Outputs of correlators, with names.
create or replace view headrace.correlation_history as
select v.namespace, t.topic, v.correlator, v.version, f.key, f.token, f.output_at, f.position, f.event_id, f.place, f.evidence,
    f.evidence_total, f.becomes, f.name, f.output_id, f.correlation_id, f.fired_at
from headrace.correlation f
join headrace.correlator_version v on v.version_id = f.version_id
join headrace.topic t on t.topic_id = f.topic_id;
