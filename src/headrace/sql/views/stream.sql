-- Streams: correlators over Spark's streaming frames, and how far each one is.
create or replace view headrace.stream with (security_barrier) as
select s.namespace, s.stream, s.shard, s.topic, s.position, s.passed_at, s.batches, s.outputs, s.committed_at
from headrace_internal.stream s
where s.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
