-- What fails in the loops of the nodes and is tried again: one row per topic, schedule, rule set, correlator or consumer. The row goes
-- away with the first success.
create or replace view headrace.failure with (security_barrier) as
select f.kind, f.namespace, f.name, f.error, f.failures, f.first_at, f.last_at, f.retry_at
from headrace_internal.failure f
where f.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
