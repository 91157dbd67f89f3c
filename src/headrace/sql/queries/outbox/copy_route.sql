-- The ids of the topics named, in their order, and the clock; no row where this role may not COPY into the outbox.
select r.topic_id, r.clock_us from headrace.copy_route(cast(%(topics)s as text[]), cast(%(namespace)s as text)) r
