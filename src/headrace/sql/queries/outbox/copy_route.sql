-- The ids of the topics named, in their order, the clock and the slot; no row where this role may not COPY into the outbox.
select r.topic_id, r.clock_us, r.slot from headrace_internal.copy_route(cast(%(topics)s as text[]), cast(%(namespace)s as text)) r
