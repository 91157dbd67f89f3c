-- Events on which no rule fired, with the reason: up to the cursor of the topic's rules, or all of the log of a topic without rules. Together
-- with headrace.event_history they are all events up to there; only inline firings are in the history before the cursor has passed.
-- The reason is computed where it is read, see headrace_internal.unmatched_reason.
-- Indexes: consumer_name_unique, firing_once. The form of the last condition rules out firing_position, which the planner takes before
-- the tables are analyzed for the first time: then every event would read all firings of its topic.
create or replace view headrace.event_unmatched with (security_barrier) as
select t.namespace, t.topic, l.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.appended_at,
    headrace_internal.unmatched_reason(l.topic_id, l.position, l.type, l.key, l.payload, l.headers, l.emitted_at) as reason
from headrace_internal.topic t
left join (
    select c.topic_id, u.position
    from headrace_internal.consumer c
    join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
    where c.consumer = 'headrace.rules') r on r.topic_id = t.topic_id
join headrace_internal.log l on l.topic_id = t.topic_id and l.position <= coalesce(r.position, 9223372036854775807)
where t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume')
    and not exists (select from headrace_internal.firing f where f.event_id = l.event_id and f.topic_id is not distinct from l.topic_id);
