-- Tables by name, in the order of the names, and whether this role may vacuum each: it owns it or, from PostgreSQL 17 on, has MAINTAIN.
select t.name, c.oid::bigint, n.nspname, c.relname,
    pg_catalog.pg_has_role(c.relowner, 'usage') or case when pg_catalog.current_setting('server_version_num')::int >= 170000
        then pg_catalog.has_table_privilege(c.oid, 'MAINTAIN') else false end
from pg_catalog.unnest(%(tables)s::text[]) with ordinality t (name, number)
cross join lateral pg_catalog.parse_ident(t.name) p (parts)
join pg_catalog.pg_namespace n on n.nspname = p.parts[1]
join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = p.parts[2]
order by t.number;
