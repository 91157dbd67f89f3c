-- Gives a relay another definition.
update headrace.relay r
set topic = %(topic)s, condition = %(condition)s, target = %(target)s, options = %(options)s::jsonb, format = %(format)s,
    mapping = %(mapping)s::jsonb, start = %(start)s, attempts = %(attempts)s, backoff_s = %(backoff_s)s,
    backoff_max_s = %(backoff_max_s)s, when_exhausted = %(when_exhausted)s, key_order = %(key_order)s, batch = %(batch)s,
    concurrency = %(concurrency)s, active = %(active)s, source = %(source)s
where r.namespace = headrace.current_namespace(%(namespace)s) and r.relay = %(name)s;
