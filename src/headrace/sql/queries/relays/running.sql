-- The active relays of a namespace that a node may run, with the consumers that have their cursors.
select r.relay_id, r.uid::text as uid, r.version, r.namespace, c.consumer_id, r.topic_id, r.status = 'pending' as is_pending,
    r.relay as name, r.topic, r.target, r.options, r.condition, r.format, r.mapping, r.start, r.attempts, r.backoff_s,
    r.backoff_max_s, r.when_exhausted, r.key_order, r.batch, r.concurrency, r.active
from headrace.relay r
join headrace.consumer c on c.topic_id = r.topic_id and c.consumer = 'relay.' || r.relay
where r.namespace = headrace.current_namespace(%(namespace)s) and r.active and r.status in ('pending', 'valid')
order by r.relay_id;
