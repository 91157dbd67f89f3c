-- The rules of an event type, in all topics.
select rule, topic, condition from headrace.rule
where namespace = headrace.current_namespace(%(namespace)s) and event_type = %(event_type)s
order by rule;
