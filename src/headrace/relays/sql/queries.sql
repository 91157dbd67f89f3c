-- name: backtest
-- Selects the events of a range for which a relay's condition, printed from its tree, is true.
select {event e}
from (
    select %(topic)s::text as topic, {stored l}
    from headrace.log l
    cross join lateral (select /* condition */ true as is_wanted) m
    where l.topic_id = headrace.topic_id(%(topic)s, %(namespace)s) and l.position > %(after)s and l.position <= %(upto)s and m.is_wanted
) e
order by e.position;

-- name: claim_events
-- Claims a batch for one version of a relay. No row if the relay has another version by now: its condition belongs to that one.
-- Locks and indexes: see headrace.claim_events.
select {event e}
from (values (%s::bigint, %s::integer, %s::integer, %s::float8, %s::integer, %s::boolean, %s::bigint, %s::integer))
    p (consumer_id, events_max, events_min, wait_s, partitions, alone, relay_id, version)
join headrace.relay_state r on r.relay_id = p.relay_id and r.version = p.version
cross join lateral headrace.claim_events(r.consumer_id, p.events_max, p.events_min, p.wait_s, p.partitions, p.alone) e

-- name: count_events
-- Selects how many events a range of a topic's log has.
select count(*) from headrace.log l
where l.topic_id = headrace.topic_id(%(topic)s, %(namespace)s) and l.position > %(after)s and l.position <= %(upto)s;

-- name: running
-- Selects the active relays of a namespace that a node may run, with the consumers that have their cursors. `{columns}` are the fields of a relay.
select r.relay_id, r.uid::text as uid, r.version, r.namespace, c.consumer_id, r.topic_id, r.status = 'pending' as is_pending,
    {columns}
from headrace.relay r
join headrace.consumer c on c.topic_id = r.topic_id and c.consumer = 'relay.' || r.relay
where r.namespace = headrace.current_namespace(%(namespace)s) and r.active and r.status in ('pending', 'valid')
order by r.relay_id;
