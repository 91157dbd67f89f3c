-- Drops a correlator.
update headrace.correlator c set dropped = true
where c.namespace = headrace.current_namespace(%(namespace)s) and c.correlator = %(correlator)s;
