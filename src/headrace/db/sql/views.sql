-- The levels that the reader holds, per namespace: those its roles were granted, and all of them for the owner. 'admin' includes
-- the others, and every level includes 'any'. The public views filter their rows by it.
-- A view runs with its owner's rights, but current_user is the reader.
create or replace view headrace_internal.caller_level as
select n.namespace, l.level
from headrace_internal.namespace n
cross join (values ('any'), ('publish'), ('consume'), ('work'), ('admin')) l (level)
where headrace_internal.caller_is_owner() or exists (
    select from headrace_internal.namespace_grant g
    where g.namespace = n.namespace and headrace_internal.level_includes(g.level, l.level) and pg_has_role(current_user, g.role, 'usage'));

-- The levels that the reader holds, per topic.
create or replace view headrace_internal.caller_topic as
select t.topic_id, k.level
from headrace_internal.topic t
join headrace_internal.caller_level k on k.namespace = t.namespace;

-- Namespaces in which the reader holds a level.
create or replace view headrace.namespace with (security_barrier) as
select n.namespace, n.created_at, n.unknown_names
from headrace_internal.namespace n
where n.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'any');

-- The levels of the reader's roles; the owner sees all.
create or replace view headrace.namespace_grant with (security_barrier) as
select g.role, g.namespace, g.level, g.granted_at
from headrace_internal.namespace_grant g
where pg_has_role(current_user, g.role, 'usage') or headrace_internal.caller_is_owner();

-- What fails in the loops of the nodes and is tried again: one row per topic, schedule, rule set, correlator or consumer. The row goes
-- away with the first success.
create or replace view headrace.failure with (security_barrier) as
select f.kind, f.namespace, f.name, f.error, f.failures, f.first_at, f.last_at, f.retry_at
from headrace_internal.failure f
where f.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
