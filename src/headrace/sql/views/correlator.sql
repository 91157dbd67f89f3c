-- Correlators. Admins of a namespace may insert and update rows, and drop one by `set dropped = true`.
create or replace view headrace.correlator as
select r.correlator_id, r.namespace, r.correlator, r.topic, r.key, r.pattern, r.outputs, r.forget_after, r.evidence_max,
    r.active, r.allow_feedback, r.restart, r.source, r.topic_id, r.version, r.status, r.error, r.since_position,
    false as dropped
from headrace_internal.readable_correlators() r;

create or replace trigger correlator_write instead of insert or update or delete on headrace.correlator
for each row execute function headrace_internal.write_view();
