-- Drops a relay.
update headrace.relay r set dropped = true where r.namespace = headrace.current_namespace(%(namespace)s) and r.relay = %(relay)s;
