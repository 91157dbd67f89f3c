-- The correlators of a namespace that run and publish events, but one: what could lead back to it.
select c.correlator, c.topic, t.compiled, c.outputs
from headrace.correlator c
join headrace.correlator_table t on t.correlator_id = c.correlator_id
where c.namespace = headrace.current_namespace(%(namespace)s) and c.correlator <> %(correlator)s and c.active
    and c.outputs @? '$.*.event'
order by c.correlator;
