-- The log: every event of a topic, by position.
create or replace view headrace.log with (security_barrier) as
select l.position, l.appended_at, l.emitted_at, l.topic_id, l.partition, l.event_id, l.type, l.key, l.payload,
    l.headers, l.producer
from headrace_internal.log l
where l.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');
