-- Deletes a correlator.
delete from headrace.correlator c
where c.namespace = headrace.current_namespace(%(namespace)s) and c.correlator = %(correlator)s;
