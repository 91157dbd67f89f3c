-- The relays of a namespace with their state.
select r.relay as name, r.topic, r.target, r.options, r.condition, r.format, r.mapping, r.start, r.attempts, r.backoff_s,
    r.backoff_max_s, r.when_exhausted, r.key_order, r.batch, r.concurrency, r.active,
    r.relay_id, r.namespace, r.source, r.version, r.status, r.error, r.written_at, r.written_by, r.consumer, r.paused, r.pause_reason
from headrace.relay_state r
where r.namespace = headrace.current_namespace(%(namespace)s)
    and (%(topic)s::text is null or r.topic = %(topic)s)
    and (%(relay)s::text is null or r.relay = %(relay)s)
order by r.relay;
