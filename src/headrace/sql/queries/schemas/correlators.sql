-- The correlators of a namespace: which event types they read is in their patterns.
select correlator, topic, key, pattern from headrace.correlator
where namespace = headrace.current_namespace(%(namespace)s)
order by correlator;
