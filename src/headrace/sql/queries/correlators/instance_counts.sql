-- How many keys stand where. Index: correlator_instance_pkey.
select i.units, count(*)
from headrace.correlator c
join headrace.correlator_instance i on i.correlator_id = c.correlator_id
where c.namespace = headrace.current_namespace(%(namespace)s) and c.correlator = %(correlator)s
group by i.units;
