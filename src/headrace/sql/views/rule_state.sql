-- Rules with their state: the active version, its first position, and warnings about names.
create or replace view headrace.rule_state with (security_barrier) as
select r.rule_id, r.namespace, r.rule, r.topic, r.event_type, r.condition, r.action, r.priority, r.delay_s, r.timing, r.active,
    r.source, v.version, v.status, v.error, v.since_position, v.since_at, v.written_at, v.written_by,
    nullif(concat_ws('; ',
        case when n.unknown_names <> 'allow' and not exists (
            select from headrace_internal.event_type e where e.namespace = r.namespace and e.event_type = r.event_type)
        then format('event type "%s" is not registered', r.event_type) end,
        case when n.unknown_names <> 'allow' and not exists (
            select from headrace_internal.action a where a.namespace = r.namespace and a.action = r.action)
        then format('action "%s" is not registered', r.action) end), '') as warning,
    exists (select from headrace_internal.pause p where p.rule_id = r.rule_id) as paused
from headrace_internal.rule r
join headrace_internal.namespace n on n.namespace = r.namespace
join headrace_internal.rule_version v on v.rule_id = r.rule_id and v.version = r.version
where r.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
