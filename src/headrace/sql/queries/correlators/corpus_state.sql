-- The table of a correlator, and the state of its one instance; null at the start.
select t.compiled, (select i.units from headrace_internal.correlator_instance i where i.correlator_id = t.correlator_id and i.key = '')
from headrace_internal.correlator_table t where t.correlator_id = %(correlator_id)s;
