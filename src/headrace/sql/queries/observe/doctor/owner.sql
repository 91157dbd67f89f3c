-- An owner that is a superuser while nodes run as other roles: what a node compiles is executed with the owner's rights.
select 'owner' as check, 'warning' as level,
    format('headrace belongs to the superuser %%s: whoever controls a node that runs as %%s becomes superuser', o.rolname,
        string_agg(r.rolname, ', ' order by r.rolname)) as message,
    'migrate as a role that is no superuser (see docs/security.md): alter the owner of the schemas headrace and headrace_internal and of'
        ' all they contain' as advice
from pg_namespace n
join pg_roles o on o.oid = n.nspowner and o.rolsuper
join headrace_internal.node_role d on true
join pg_roles r on r.oid = d.role and not r.rolsuper
where n.nspname = 'headrace_internal'
group by o.rolname;
