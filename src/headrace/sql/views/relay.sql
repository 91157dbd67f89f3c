-- Relays. Admins of a namespace may insert and update rows, and drop one by `set dropped = true`.
create or replace view headrace.relay as
select r.relay_id, r.uid, r.namespace, r.relay, r.topic, r.condition, r.target, r.options, r.format, r.mapping, r.start, r.attempts,
    r.backoff_s, r.backoff_max_s, r.when_exhausted, r.key_order, r.batch, r.concurrency, r.active, r.source, r.topic_id, r.version,
    r.status, r.error,
    false as dropped
from headrace_internal.readable_relays() r;

create or replace trigger relay_write instead of insert or update or delete on headrace.relay
for each row execute function headrace_internal.write_view();
