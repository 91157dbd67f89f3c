-- Lag per partition, with the state: idle if no live node runs the consumer. For all consumers of a namespace or only those of a
-- topic or a name.
select g.topic, g.consumer, g.partition, g.position,
    case when g.state = 'running' and g.nodes = 0 then 'idle' else g.state end as state, g.attempts, g.retry_at, g.error, g.traceback,
    g.lag_events, g.lag_s, g.nodes, g.session_limit_s
from headrace.consumer_lag g
where g.namespace = headrace.current_namespace(%(namespace)s)
    and (%(topic)s::text is null or g.topic = %(topic)s)
    and (%(consumer)s::text is null or g.consumer = %(consumer)s)
order by g.topic, g.consumer, g.partition;
