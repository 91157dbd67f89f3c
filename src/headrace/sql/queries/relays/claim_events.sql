-- Claims a batch for one version of a relay. No row if the relay has another version by now: its condition belongs to that one.
-- Locks and indexes: see headrace.claim_events.
select e.position, e.partition, e.event_id, e.topic, e.type, e.key, e.payload, e.headers, e.emitted_at, e.appended_at, e.producer
from (values (%s::bigint, %s::integer, %s::integer, %s::float8, %s::integer, %s::boolean, %s::integer, %s::integer))
    p (consumer_id, most, least, wait_s, partitions, alone, relay_id, version)
join headrace.relay_state r on r.relay_id = p.relay_id and r.version = p.version
cross join lateral headrace.claim_events(r.consumer_id, p.most, p.least, p.wait_s, p.partitions, p.alone) e
