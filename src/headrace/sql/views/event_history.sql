-- Events on which rules fired: one row per event and firing. Index: log_event_id.
create or replace view headrace.event_history with (security_barrier) as
select v.namespace, t.topic, l.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.appended_at,
    v.rule, v.version, v.timing, f.action, f.action_id, f.firing_id, f.fired_at
from headrace_internal.firing f
join headrace_internal.rule_version v on v.version_id = f.rule_version_id
join headrace_internal.topic t on t.topic_id = f.topic_id
join headrace_internal.log l on l.topic_id = f.topic_id and l.event_id = f.event_id
where t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
