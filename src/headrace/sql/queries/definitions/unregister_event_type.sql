-- Removes an event type from the registry; rules that name it stay.
delete from headrace.event_type e where e.namespace = headrace.current_namespace(%(namespace)s) and e.event_type = %(name)s;
