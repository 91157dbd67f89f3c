-- What fails in the loops of the nodes of a namespace and is tried again. Reads the public view only.
select f.kind, f.name, f.failures, f.first_at, f.retry_at, split_part(f.error, E'\n', 1) as error
from headrace.failure f
where f.namespace = headrace.current_namespace(%(namespace)s)
order by f.first_at;
