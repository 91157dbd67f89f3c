-- Which rule version fired on which event.
create or replace view headrace.firing with (security_barrier) as
select f.firing_id, f.topic_id, f.position, f.event_id, f.rule_version_id, f.action, f.action_id, f.fired_at
from headrace_internal.firing f
where f.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');
