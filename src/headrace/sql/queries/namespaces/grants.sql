-- Who may do what, by namespace and role, without dropped roles.
select r.rolname::text as role, g.namespace, g.level, g.granted_at
from headrace.namespace_grant g
join pg_roles r on r.oid = g.role
where %(namespace)s::text is null or g.namespace = %(namespace)s
order by g.namespace, r.rolname, g.level;
