-- Correlators with their state: the active version, its first position, how many keys kept their state, and warnings about names.
create or replace view headrace.correlator_state with (security_barrier) as
select c.correlator_id, c.namespace, c.correlator, c.topic, c.key, c.pattern, c.outputs, c.forget_after, c.evidence_max, c.active,
    c.allow_feedback, c.source, v.version_id, v.version, v.status, v.error, v.since_position, v.since_at, v.written_at, v.written_by,
    v.carried, v.restarted, t.simple,
    nullif(concat_ws('; ', v.warning, case when n.unknown_names <> 'allow' then headrace_internal.unknown_outputs(c.namespace, c.outputs) end), '')
        as warning
from headrace_internal.correlator c
join headrace_internal.namespace n on n.namespace = c.namespace
join headrace_internal.correlator_version v on v.correlator_id = c.correlator_id and v.version = c.version
left join headrace_internal.correlator_table t on t.correlator_id = c.correlator_id
where c.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
