-- The pipelines of a namespace, or that of one topic, with their progress.
select s.topic, s.namespace, s.engine, s.state, s.process, s.master, s.started_at, s.heartbeat_at, s.batches, s.events, s.firings,
    s.outputs, s.position, s.lag_events, s.lag_s, s.rate, s.batch_ms, s.error
from headrace.pipeline_state s
where s.namespace = headrace.current_namespace(%(namespace)s) and (%(topic)s::text is null or s.topic = %(topic)s)
order by s.topic;
