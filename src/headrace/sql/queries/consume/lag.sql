-- Lag per partition of the consumers of a namespace, or of those named.
select g.topic, g.consumer, g.partition, g.position, g.state, g.attempts, g.retry_at, g.error, g.lag_events, g.lag_s
from headrace.consumer_lag g
where g.namespace = headrace.current_namespace(%(namespace)s)
    and (%(topic)s::text is null or g.topic = %(topic)s)
    and (%(consumer)s::text is null or g.consumer = %(consumer)s)
order by g.topic, g.consumer, g.partition;
