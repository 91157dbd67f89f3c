-- The newest batches of each Spark pipeline of a namespace. Reads the public views only. Index: pipeline_batch_pkey, backwards.
select t.topic, b.batch, b.from_position, b.upto, b.upto - b.from_position as events, b.firings, b.outputs, b.timers, b.took_ms, b.committed_at
from headrace.pipeline p
join headrace.topic t on t.topic_id = p.topic_id and t.namespace = headrace.current_namespace(%(namespace)s)
cross join lateral (
    select b.batch, b.from_position, b.upto, b.firings, b.outputs, b.timers, b.took_ms, b.committed_at
    from headrace.pipeline_batch b where b.topic_id = p.topic_id
    order by b.batch desc
    limit %(limit)s) b
order by b.committed_at desc;
