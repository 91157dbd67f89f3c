-- Topics.
create or replace view headrace.topic with (security_barrier) as
select t.topic_id, t.namespace, t.topic, t.partitions, t.time_partition, t.clock, t.retention, t.archive, t.dropped_to,
    t.log_until, t.asleep, t.timers_to, t.engine, t.created_at
from headrace_internal.topic t
where t.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'any');
