-- Rules with their state: what is in force, from which position, and what is odd about their names.
create view headrace.rule_state as
select r.rule_id, r.namespace, r.rule, r.topic, r.event_type, r.condition, r.action, r.priority, r.delay_s, r.timing, r.active,
    r.source, v.version, v.status, v.error, v.since_position, v.since_at, v.written_at, v.written_by,
    nullif(concat_ws('; ',
        case when n.unknown_names <> 'allow' and not exists (
            select from headrace.event_type e where e.namespace = r.namespace and e.event_type = r.event_type)
        then format('event type "%s" is not registered', r.event_type) end,
        case when n.unknown_names <> 'allow' and not exists (
            select from headrace.action a where a.namespace = r.namespace and a.action = r.action)
        then format('action "%s" is not registered', r.action) end), '') as warning
from headrace.rule r
join headrace.namespace n on n.namespace = r.namespace
join headrace.rule_version v on v.rule_id = r.rule_id and v.version = r.version;

-- Events on which rules fired: one row per event and firing. Index: log_event_id.
create view headrace.event_history as
select v.namespace, t.topic, l.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.appended_at,
    v.rule, v.version, v.timing, f.action, f.action_id, f.firing_id, f.fired_at
from headrace.firing f
join headrace.rule_version v on v.version_id = f.rule_version_id
join headrace.topic t on t.topic_id = f.topic_id
join headrace.log l on l.topic_id = f.topic_id and l.event_id = f.event_id;

-- Events that the rules of their topic have passed, while some were in force, and on which none fired.
-- Indexes: rule_version_in_force, firing_once.
create view headrace.event_unmatched as
select t.namespace, t.topic, l.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.appended_at
from headrace.consumer c
join headrace.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
join headrace.topic t on t.topic_id = c.topic_id
join headrace.log l on l.topic_id = c.topic_id and l.position <= u.position
where c.consumer = 'headrace.rules'
    and exists (
        select from headrace.rule_version v
        where v.topic_id = c.topic_id and v.since_position <= l.position
            and (v.until_position is null or v.until_position >= l.position))
    and not exists (select from headrace.firing f where f.event_id = l.event_id and f.topic_id = l.topic_id);
