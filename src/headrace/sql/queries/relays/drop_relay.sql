-- Drops a relay.
delete from headrace.relay r where r.namespace = headrace.current_namespace(%(namespace)s) and r.relay = %(relay)s;
