-- What is paused in a namespace, by kind and name.
select p.namespace, p.kind, p.name, p.reason, p.paused_at, p.paused_by
from headrace.pause p
where p.namespace = headrace.current_namespace(%(namespace)s)
order by p.kind, p.name;
