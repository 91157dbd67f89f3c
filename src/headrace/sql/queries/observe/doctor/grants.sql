-- Rights that headrace_internal.secure() does not leave behind: functions and relations of ours that PUBLIC can use, and rights of a
-- namespace's roles on what is internal.
with right_of as (
    select p.oid::regprocedure::text as object, p.pronamespace as schema, a.grantee, a.privilege_type
    from pg_proc p cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where p.pronamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and a.grantee <> p.proowner
    union all
    select c.oid::regclass::text, c.relnamespace, a.grantee, a.privilege_type
    from pg_class c cross join lateral aclexplode(c.relacl) a
    where c.relnamespace in ('headrace'::regnamespace, 'headrace_internal'::regnamespace) and c.relkind in ('r', 'p', 'v', 'S')
        and a.grantee <> c.relowner
), wrong as (
    select case when r.grantee = 0 then 'PUBLIC' else r.grantee::regrole::text end as role, r.object, r.privilege_type
    from right_of r
    where r.grantee = 0 or (r.schema = 'headrace_internal'::regnamespace and r.privilege_type <> 'EXECUTE'
        and r.grantee in (select g.role from headrace_internal.namespace_grant g))
)
select 'grants' as check, 'problem' as level,
    format('%%s holds %%s rights that nobody should have, such as %%s on %%s', w.role, count(*),
        lower((array_agg(w.privilege_type order by w.object, w.privilege_type))[1]),
        (array_agg(w.object order by w.object, w.privilege_type))[1]) as message,
    'run: headrace migrate; it restores the rights' as advice
from wrong w
group by w.role
order by w.role;
