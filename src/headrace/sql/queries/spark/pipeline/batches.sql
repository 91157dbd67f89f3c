-- The newest batches of a topic's pipeline, the newest first. Index: pipeline_batch_pkey.
select b.batch, b.from_position, b.upto, b.firings, b.outputs, b.timers, b.took_ms, b.committed_at
from headrace_internal.pipeline_batch b
where b.topic_id = headrace_internal.topic_id(%(topic)s, %(namespace)s)
order by b.batch desc limit %(limit)s;
