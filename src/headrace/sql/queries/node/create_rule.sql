-- Creates a rule without a condition for an event type that a node handles directly, in one topic or in all topics.
-- An existing rule stays as it is: somebody may have switched it off.
insert into headrace.rule (namespace, rule, topic, event_type, condition, action, source)
select t.namespace, %(action)s || ' ' || t.topic, t.topic, %(event_type)s, 'true', %(action)s, 'app'
from headrace.topic t
where t.namespace = headrace.current_namespace(%(namespace)s) and (%(topic)s::text is null or t.topic = %(topic)s)
    and not exists (select from headrace.rule r where r.namespace = t.namespace and r.rule = %(action)s || ' ' || t.topic)
on conflict on constraint rule_name_unique do nothing;
