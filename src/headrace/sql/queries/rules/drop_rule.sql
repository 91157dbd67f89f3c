-- Drops a rule.
update headrace.rule r set dropped = true where r.namespace = headrace.current_namespace(%(namespace)s) and r.rule = %(rule)s;
