-- All tables of headrace and of the queues, partitions one by one.
select n.nspname, c.relname
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('headrace', 'headrace_internal', 'pgmq') and c.relkind = 'r'
order by 1, 2;
