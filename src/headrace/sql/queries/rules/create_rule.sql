-- Creates a rule. Raises HR220 when the name exists already.
insert into headrace.rule
    (namespace, rule, topic, event_type, condition, action, priority, delay_s, timing, active, source)
values (headrace.current_namespace(%(namespace)s), %(name)s, %(topic)s, %(event_type)s, %(condition)s, %(action)s,
    %(priority)s, %(delay_s)s, %(timing)s, %(active)s, %(source)s)
returning rule_id;
