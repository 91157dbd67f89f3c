-- All versions of correlators.
create or replace view headrace.correlator_version with (security_barrier) as
select v.version_id, v.correlator_id, v.version, v.namespace, v.correlator, v.topic_id, v.key, v.pattern, v.outputs,
    v.forget_after, v.evidence_max, v.active, v.allow_feedback, v.restart, v.dropped, v.written_at, v.written_by,
    v.status, v.error, v.warning, v.canonical, v.since_position, v.until_position, v.since_at, v.until_at, v.carried,
    v.restarted
from headrace_internal.correlator_version v
where v.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
