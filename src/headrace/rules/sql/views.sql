-- What users write of a rule: headrace.write_definition writes these columns and no others.
create or replace view headrace_internal.rule_fields as
select r.namespace, r.rule, r.topic, r.event_type, r.condition, r.action, r.priority, r.delay_s, r.timing, r.active, r.source
from headrace_internal.rule r;

-- Rules. Admins of a namespace may insert and update rows, and drop one by `set dropped = true`.
create or replace view headrace.rule as
select r.rule_id, r.namespace, r.rule, r.topic, r.event_type, r.condition, r.action, r.priority, r.delay_s, r.timing,
    r.active, r.source, r.topic_id, r.version, r.status, r.error, r.since_position,
    false as dropped
from headrace_internal.readable_definitions(null::headrace_internal.rule) r;

create or replace trigger rule_write instead of insert or update or delete on headrace.rule
for each row execute function headrace_internal.write_view();

-- All versions of rules.
create or replace view headrace.rule_version with (security_barrier) as
select v.version_id, v.rule_id, v.version, v.namespace, v.rule, v.topic, v.topic_id, v.event_type, v.condition, v.action,
    v.priority, v.delay_s, v.timing, v.active, v.dropped, v.written_at, v.written_by, v.status, v.error, v.canonical,
    v.since_position, v.until_position, v.since_at, v.until_at
from headrace_internal.rule_version v
where v.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');

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

-- Which rule version fired on which event.
create or replace view headrace.firing with (security_barrier) as
select f.firing_id, f.topic_id, f.position, f.event_id, f.rule_version_id, f.action, f.action_id, f.fired_at
from headrace_internal.firing f
where f.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');

-- Events on which rules fired: one row per event and firing. Index: log_event_id.
create or replace view headrace.event_history with (security_barrier) as
select v.namespace, t.topic, l.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.appended_at,
    v.rule, v.version, v.timing, f.action, f.action_id, f.firing_id, f.fired_at
from headrace_internal.firing f
join headrace_internal.rule_version v on v.version_id = f.rule_version_id
join headrace_internal.topic t on t.topic_id = f.topic_id
join headrace_internal.log l on l.topic_id = f.topic_id and l.event_id = f.event_id
where t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');

-- The rows of headrace.event_unmatched, without the reason: a security barrier computes all of its columns before the reader's limit.
-- Indexes: log_position, consumer_name_unique, firing_once. The lower bound of the position excludes nothing: with it the log is read by
-- topic, and partitions of topics that the reader does not ask for are not read. The form of the last condition rules out firing_position,
-- which the planner takes before the tables are analyzed for the first time: then every event would read all firings of its topic.
create or replace view headrace_internal.unmatched_event with (security_barrier) as
select t.namespace, t.topic, l.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.appended_at, l.topic_id, l.headers
from headrace_internal.topic t
left join (
    select c.topic_id, u.position
    from headrace_internal.consumer c
    join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
    where c.consumer = 'headrace.rules') r on r.topic_id = t.topic_id
join headrace_internal.log l on l.topic_id = t.topic_id and l.position > t.dropped_to
    and l.position <= coalesce(r.position, 9223372036854775807)
where t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume')
    and not exists (select from headrace_internal.firing f where f.event_id = l.event_id and f.topic_id is not distinct from l.topic_id);

-- Events on which no rule fired, with the reason: up to the cursor of the topic's rules, or all of the log of a topic without rules. Together
-- with headrace.event_history they are all events up to there; only inline firings are in the history before the cursor has passed.
-- The reason is computed where it is read, see headrace_internal.unmatched_reason: with "order by position desc limit n" for n events. In
-- a large log also name the topic and a range of positions: the events themselves are found, and sorted, first.
create or replace view headrace.event_unmatched as
select e.namespace, e.topic, e.position, e.event_id, e.type, e.key, e.payload, e.emitted_at, e.appended_at,
    headrace_internal.unmatched_reason(e.topic_id, e.position, e.type, e.key, e.payload, e.headers, e.emitted_at) as reason
from headrace_internal.unmatched_event e;
