-- name: alter_relay
-- Gives a relay another definition.
update headrace.relay r
set topic = %(topic)s, condition = %(condition)s, target = %(target)s, options = %(options)s::jsonb, format = %(format)s,
    mapping = %(mapping)s::jsonb, start = %(start)s, attempts = %(attempts)s, backoff_s = %(backoff_s)s,
    backoff_max_s = %(backoff_max_s)s, when_exhausted = %(when_exhausted)s, key_order = %(key_order)s, batch = %(batch)s,
    concurrency = %(concurrency)s, active = %(active)s, source = %(source)s
where r.namespace = headrace.current_namespace(%(namespace)s) and r.relay = %(name)s;

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
from (values (%s::bigint, %s::integer, %s::integer, %s::float8, %s::integer, %s::boolean, %s::integer, %s::integer))
    p (consumer_id, most, least, wait_s, partitions, alone, relay_id, version)
join headrace.relay_state r on r.relay_id = p.relay_id and r.version = p.version
cross join lateral headrace.claim_events(r.consumer_id, p.most, p.least, p.wait_s, p.partitions, p.alone) e

-- name: count_events
-- Selects how many events a range of a topic's log has.
select count(*) from headrace.log l
where l.topic_id = headrace.topic_id(%(topic)s, %(namespace)s) and l.position > %(after)s and l.position <= %(upto)s;

-- name: create_relay
-- Creates a relay. Raises HR224 when the name exists already.
insert into headrace.relay (namespace, relay, topic, condition, target, options, format, mapping, start, attempts, backoff_s,
    backoff_max_s, when_exhausted, key_order, batch, concurrency, active, source)
values (headrace.current_namespace(%(namespace)s), %(name)s, %(topic)s, %(condition)s, %(target)s, %(options)s::jsonb, %(format)s,
    %(mapping)s::jsonb, %(start)s, %(attempts)s, %(backoff_s)s, %(backoff_max_s)s, %(when_exhausted)s, %(key_order)s, %(batch)s,
    %(concurrency)s, %(active)s, %(source)s)
returning relay_id;

-- name: drop_relay
-- Drops a relay.
update headrace.relay r set dropped = true where r.namespace = headrace.current_namespace(%(namespace)s) and r.relay = %(relay)s;

-- name: relays
-- Selects the relays of a namespace with their state.
select r.relay as name, r.topic, r.target, r.options, r.condition, r.format, r.mapping, r.start, r.attempts, r.backoff_s,
    r.backoff_max_s, r.when_exhausted, r.key_order, r.batch, r.concurrency, r.active,
    r.relay_id, r.namespace, r.source, r.version, r.status, r.error, r.written_at, r.written_by, r.consumer, r.paused, r.pause_reason
from headrace.relay_state r
where r.namespace = headrace.current_namespace(%(namespace)s)
    and (%(topic)s::text is null or r.topic = %(topic)s)
    and (%(relay)s::text is null or r.relay = %(relay)s)
order by r.relay;

-- name: running
-- Selects the active relays of a namespace that a node may run, with the consumers that have their cursors.
select r.relay_id, r.uid::text as uid, r.version, r.namespace, c.consumer_id, r.topic_id, r.status = 'pending' as is_pending,
    r.relay as name, r.topic, r.target, r.options, r.condition, r.format, r.mapping, r.start, r.attempts, r.backoff_s,
    r.backoff_max_s, r.when_exhausted, r.key_order, r.batch, r.concurrency, r.active
from headrace.relay r
join headrace.consumer c on c.topic_id = r.topic_id and c.consumer = 'relay.' || r.relay
where r.namespace = headrace.current_namespace(%(namespace)s) and r.active and r.status in ('pending', 'valid')
order by r.relay_id;

-- name: versions
-- Selects the versions of a relay, also of a dropped one, oldest first.
select v.relay_id, v.version, t.topic, v.condition, v.target, v.options, v.format, v.mapping, v.active, v.dropped, v.written_at, v.written_by
from headrace.relay_version v
join headrace.topic t on t.topic_id = v.topic_id
where v.namespace = headrace.current_namespace(%(namespace)s) and v.relay = %(relay)s
order by v.relay_id, v.version;
