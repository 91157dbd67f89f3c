-- The id of the event at a position; none if there is no such topic. Indexes: topic_name_unique, log_position.
select l.event_id
from headrace.topic t
join headrace.log l on l.topic_id = t.topic_id
where t.namespace = headrace.current_namespace(%(namespace)s) and t.topic = %(topic)s and l.position = %(position)s;
