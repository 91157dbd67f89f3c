-- Relays with their state: the current version, the consumer with their cursors, and whether they are paused.
create or replace view headrace.relay_state with (security_barrier) as
select r.relay_id, r.namespace, r.relay, r.topic, r.condition, r.target, r.options, r.format, r.mapping, r.start, r.attempts,
    r.backoff_s, r.backoff_max_s, r.when_exhausted, r.key_order, r.batch, r.concurrency, r.active, r.source, r.version, r.status,
    r.error, v.written_at, v.written_by, c.consumer_id, c.consumer, p.consumer_id is not null as paused, p.reason as pause_reason
from headrace_internal.relay r
join headrace_internal.relay_version v on v.relay_id = r.relay_id and v.version = r.version
join headrace_internal.consumer c on c.topic_id = r.topic_id and c.consumer = 'relay.' || r.relay
left join headrace_internal.pause p on p.consumer_id = c.consumer_id
where r.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
