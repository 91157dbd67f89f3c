-- The relays of a namespace: which event types they read is in their conditions.
select relay, topic, condition, mapping from headrace.relay
where namespace = headrace.current_namespace(%(namespace)s)
order by relay;
