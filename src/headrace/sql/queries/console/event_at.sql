-- The id of the event at a position; none if there is no such topic. Index: topic_name_unique.
select l.event_id
from headrace.topic t
cross join lateral headrace.read_log(t.topic_id, %(position)s - 1, 1) l
where t.namespace = headrace.current_namespace(%(namespace)s) and t.topic = %(topic)s and l.position = %(position)s;
