-- The state of correlators, per key.
create or replace view headrace.correlator_instance with (security_barrier) as
select i.correlator_id, i.key, i.units, i.deadlines, i.deadline, i.started_at, i.seen_at, i.evidence, i.evidence_total,
    i.memory
from headrace_internal.correlator_instance i
where i.correlator_id in (
    select c.correlator_id from headrace_internal.correlator c
    join headrace_internal.caller_level k on k.namespace = c.namespace and k.level = 'consume');
