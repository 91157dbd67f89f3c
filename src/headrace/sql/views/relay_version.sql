-- All versions of relays.
create or replace view headrace.relay_version with (security_barrier) as
select v.relay_id, v.version, v.namespace, v.relay, v.topic_id, v.condition, v.target, v.options, v.format, v.mapping, v.attempts,
    v.backoff_s, v.backoff_max_s, v.when_exhausted, v.key_order, v.batch, v.concurrency, v.active, v.dropped, v.written_at, v.written_by
from headrace_internal.relay_version v
where v.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
