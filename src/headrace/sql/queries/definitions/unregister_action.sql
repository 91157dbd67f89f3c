-- Removes an action from the registry; rules that name it stay.
delete from headrace.action a where a.namespace = headrace.current_namespace(%(namespace)s) and a.action = %(name)s;
