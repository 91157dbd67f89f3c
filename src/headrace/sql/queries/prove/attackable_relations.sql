-- Tables and views of our schemas and the queue's with their columns, and whether this role may read them.
select n.nspname, c.relname,
       array(select a.attname from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum),
       array(select format_type(a.atttypid, null) from pg_attribute a
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum),
       has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('headrace', 'headrace_internal', 'pgmq') and c.relkind in ('r', 'p', 'v')
order by n.nspname, c.relname
