-- What users write of a relay: headrace.write_definition writes these columns and no others.
create or replace view headrace_internal.relay_fields as
select r.namespace, r.relay, r.topic, r.condition, r.target, r.options, r.format, r.mapping, r.start, r.attempts, r.backoff_s,
    r.backoff_max_s, r.when_exhausted, r.key_order, r.batch, r.concurrency, r.active, r.source
from headrace_internal.relay r;

-- Relays. Admins of a namespace may insert and update rows, and drop one by `set dropped = true`.
create or replace view headrace.relay as
select r.relay_id, r.uid, r.namespace, r.relay, r.topic, r.condition, r.target, r.options, r.format, r.mapping, r.start, r.attempts,
    r.backoff_s, r.backoff_max_s, r.when_exhausted, r.key_order, r.batch, r.concurrency, r.active, r.source, r.topic_id, r.version,
    r.status, r.error,
    false as dropped
from headrace_internal.readable_definitions(null::headrace_internal.relay) r;

create or replace trigger relay_write instead of insert or update or delete on headrace.relay
for each row execute function headrace_internal.write_view();

-- All versions of relays.
create or replace view headrace.relay_version with (security_barrier) as
select v.relay_id, v.version, v.namespace, v.relay, v.topic, v.topic_id, v.condition, v.target, v.options, v.format, v.mapping, v.start, v.attempts,
    v.backoff_s, v.backoff_max_s, v.when_exhausted, v.key_order, v.batch, v.concurrency, v.active, v.dropped, v.written_at, v.written_by
from headrace_internal.relay_version v
where v.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');

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
