-- Gives a rule another definition.
update headrace.rule r
set topic = %(topic)s, event_type = %(event_type)s, condition = %(condition)s, action = %(action)s, priority = %(priority)s,
    delay_s = %(delay_s)s, timing = %(timing)s, active = %(active)s, source = %(source)s
where r.namespace = headrace.current_namespace(%(namespace)s) and r.rule = %(name)s;
