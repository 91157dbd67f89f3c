-- Events that the rules of their topic have passed, while some were active, and on which none fired.
-- Indexes: rule_version_in_force, firing_once. The form of the last condition rules out firing_position, which the planner takes before
-- the tables are analyzed for the first time: then every event would read all firings of its topic.
create or replace view headrace.event_unmatched with (security_barrier) as
select t.namespace, t.topic, l.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.appended_at
from headrace_internal.consumer c
join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
join headrace_internal.topic t on t.topic_id = c.topic_id
join headrace_internal.log l on l.topic_id = c.topic_id and l.position <= u.position
where c.consumer = 'headrace.rules' and t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume')
    and exists (
        select from headrace_internal.rule_version v
        where v.topic_id = c.topic_id and v.since_position <= l.position
            and (v.until_position is null or v.until_position >= l.position))
    and not exists (select from headrace_internal.firing f where f.event_id = l.event_id and f.topic_id is not distinct from l.topic_id);
