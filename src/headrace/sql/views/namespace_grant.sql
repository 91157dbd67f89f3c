-- The levels of the reader's roles; the owner sees all.
create or replace view headrace.namespace_grant with (security_barrier) as
select g.role, g.namespace, g.level, g.granted_at
from headrace_internal.namespace_grant g
where pg_has_role(current_user, g.role, 'usage') or headrace_internal.caller_is_owner();
