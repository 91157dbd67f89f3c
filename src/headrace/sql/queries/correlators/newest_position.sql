-- The first and the last position of a topic's log; no row while it is empty. Index: log_position, backwards.
select t.topic_id, t.dropped_to + 1, h.position
from headrace.topic t
cross join lateral headrace.log_head(t.topic_id) h
where t.namespace = headrace.current_namespace(%(namespace)s) and t.topic = %(topic)s;
