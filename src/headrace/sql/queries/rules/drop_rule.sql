-- Drops a rule.
delete from headrace.rule r where r.namespace = headrace.current_namespace(%(namespace)s) and r.rule = %(rule)s;
