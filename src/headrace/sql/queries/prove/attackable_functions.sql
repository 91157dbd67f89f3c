-- Functions of our schemas with their parameters, and whether this role may execute them.
select n.nspname, p.proname, coalesce(p.proargnames, '{}'), p.pronargdefaults, p.prokind = 'p',
       array(select format_type(t.oid, null) from unnest(p.proargtypes) with ordinality a (oid, place) join pg_type t on t.oid = a.oid
             order by place),
       p.proargtypes::oid[]::bigint[],
       has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute')
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname in ('headrace', 'headrace_internal') and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
  and p.prokind in ('f', 'p')
order by n.nspname, p.proname, p.oid::regprocedure::text
