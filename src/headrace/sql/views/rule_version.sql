-- All versions of rules.
create or replace view headrace.rule_version with (security_barrier) as
select v.version_id, v.rule_id, v.version, v.namespace, v.rule, v.topic_id, v.event_type, v.condition, v.action,
    v.priority, v.delay_s, v.timing, v.active, v.dropped, v.written_at, v.written_by, v.status, v.error, v.canonical,
    v.since_position, v.until_position, v.since_at, v.until_at
from headrace_internal.rule_version v
where v.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
