-- Correlators with their state: the active version, its first position, how many keys kept their state, and warnings about names.
create or replace view headrace.correlator_state with (security_barrier) as
select c.correlator_id, c.namespace, c.correlator, c.topic, c.key, c.pattern, c.outputs, c.forget_after, c.evidence_max, c.active,
    c.allow_feedback, c.source, v.version_id, v.version, v.status, v.error, v.since_position, v.since_at, v.written_at, v.written_by,
    v.carried, v.restarted, t.simple,
    nullif(concat_ws('; ', v.warning, case when n.unknown_names <> 'allow' then u.names end), '')
        as warning,
    exists (select from headrace_internal.pause p where p.namespace = c.namespace and p.kind = 'correlator' and p.name = c.correlator) as paused
from headrace_internal.correlator c
join headrace_internal.namespace n on n.namespace = c.namespace
join headrace_internal.correlator_version v on v.correlator_id = c.correlator_id and v.version = c.version
left join headrace_internal.correlator_table t on t.correlator_id = c.correlator_id
-- As headrace_internal.unknown_outputs: a function would run with the reader's rights, which do not reach the tables.
cross join lateral (
    select nullif(string_agg(case
        when o.value ? 'action' and not exists (select from headrace_internal.action a
            where a.namespace = c.namespace and a.action = o.value ->> 'action')
        then format('action "%s" is not registered', o.value ->> 'action')
        when o.value ? 'event' and not exists (select from headrace_internal.event_type e
            where e.namespace = c.namespace and e.event_type = o.value ->> 'event')
        then format('event type "%s" is not registered', o.value ->> 'event') end, ' and ' order by o.key), '') as names
    from jsonb_each(c.outputs) o
) u
where c.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
