-- Namespaces in which the reader holds a level.
create or replace view headrace.namespace with (security_barrier) as
select n.namespace, n.created_at, n.unknown_names
from headrace_internal.namespace n
where n.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'any');
