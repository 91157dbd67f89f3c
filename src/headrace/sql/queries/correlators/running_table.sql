-- The table that runs, and the key its instances have.
select t.compiled, v.key
from headrace.correlator c
join headrace.correlator_table t on t.correlator_id = c.correlator_id
join headrace.correlator_version v on v.version_id = t.version_id
where c.namespace = headrace.current_namespace(%(namespace)s) and c.correlator = %(correlator)s;
