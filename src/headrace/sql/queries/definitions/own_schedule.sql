-- Makes a source the owner of a schedule. Locks: the schedule row.
update headrace.schedule s set source = %(source)s
where s.namespace = headrace.current_namespace(%(namespace)s) and s.schedule = %(name)s;
