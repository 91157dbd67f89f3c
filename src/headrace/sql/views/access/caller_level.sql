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
