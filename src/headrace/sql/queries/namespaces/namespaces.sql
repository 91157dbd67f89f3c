-- The namespaces the current role sees, with the number of topics and of roles granted something.
select n.namespace, n.created_at,
    (select count(*) from headrace.topic t where t.namespace = n.namespace) as topics,
    (select count(distinct g.role) from headrace_internal.namespace_grant g where g.namespace = n.namespace) as roles,
    n.unknown_names
from headrace.namespace n
order by n.namespace;
