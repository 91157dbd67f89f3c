-- A topic with its last position and the time up to which its timers may have fired: its clock's. Index: log_position, backwards.
select t.topic_id, coalesce(l.position, 0), case when t.clock = 'server' then headrace.clock() else l.appended_at end
from headrace.topic t
left join lateral headrace.log_head(t.topic_id) l on true
where t.topic_id = headrace.topic_id(%(topic)s, %(namespace)s)
