-- Creates a relay. Raises HR224 when the name exists already.
insert into headrace.relay (namespace, relay, topic, condition, target, options, format, mapping, start, attempts, backoff_s,
    backoff_max_s, when_exhausted, key_order, batch, concurrency, active, source)
values (headrace.current_namespace(%(namespace)s), %(name)s, %(topic)s, %(condition)s, %(target)s, %(options)s::jsonb, %(format)s,
    %(mapping)s::jsonb, %(start)s, %(attempts)s, %(backoff_s)s, %(backoff_max_s)s, %(when_exhausted)s, %(key_order)s, %(batch)s,
    %(concurrency)s, %(active)s, %(source)s)
returning relay_id;
