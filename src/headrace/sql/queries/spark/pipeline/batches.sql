-- The newest batches of a topic's pipeline, newest first. Index: pipeline_batch_pkey.
select b.batch, b.from_position, b.upto, b.firings, b.outputs, b.timers, b.took_ms, b.committed_at
from headrace.pipeline_batch b
where b.topic_id = headrace.topic_id(%(topic)s, %(namespace)s)
order by b.batch desc limit %(limit)s;
