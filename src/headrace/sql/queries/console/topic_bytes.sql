-- The size of a topic's log on disk, with its indexes. From the catalog: a role of a namespace cannot name the tables.
select coalesce(sum(pg_total_relation_size(p.relid)), 0)::bigint as bytes
from headrace.topic t
join pg_class c on c.relname = 'log_' || t.topic_id
join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'headrace_internal'
cross join lateral pg_partition_tree(c.oid) p
where t.namespace = headrace.current_namespace(%(namespace)s) and t.topic = %(topic)s and p.isleaf;
