-- Batches of pipelines.
create or replace view headrace.pipeline_batch with (security_barrier) as
select b.topic_id, b.batch, b.run_id, b.from_position, b.upto, b.firings, b.outputs, b.timers, b.took_ms, b.committed_at
from headrace_internal.pipeline_batch b
where b.topic_id in (select k.topic_id from headrace_internal.caller_topic k where k.level = 'consume');
