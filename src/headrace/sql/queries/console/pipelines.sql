-- The Spark pipelines of a namespace with their progress. Reads the public view, so a role sees its own namespaces.
select p.topic, p.state, p.process, p.master, p.batches, p.events, p.rate, p.batch_ms, p.lag_events, p.lag_s, p.started_at, p.heartbeat_at, p.error
from headrace.pipeline_state p
where p.namespace = headrace.current_namespace(%(namespace)s)
order by p.topic;
