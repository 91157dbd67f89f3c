-- The event types of each topic, or of one: those of its rules and those among its newest events, %(scanned)s positions of each log.
select t.topic, n.type
from headrace.topic t
cross join lateral (
    select r.event_type as type from headrace.rule r where r.namespace = t.namespace and r.topic = t.topic
    union
    select l.type from headrace.log l
    where l.topic_id = t.topic_id and l.position > (select h.position - %(scanned)s from headrace.log_head(t.topic_id) h)) n
where t.namespace = headrace.current_namespace(%(namespace)s) and (%(topic)s::text is null or t.topic = %(topic)s)
order by t.topic, n.type;
