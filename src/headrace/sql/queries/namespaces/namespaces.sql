-- The namespaces that the current role may see, with the number of topics and of roles with a grant.
select n.namespace, n.created_at,
    (select count(*) from headrace.topic t where t.namespace = n.namespace) as topics,
    (select count(distinct g.role) from headrace.namespace_grant g where g.namespace = n.namespace) as roles,
    n.unknown_names
from headrace.namespace n
order by n.namespace;
