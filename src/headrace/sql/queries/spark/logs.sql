-- The topics of a namespace with the first position that is there and the one that comes next.
-- Indexes: topic_name_unique, log_position backwards.
select t.topic, t.topic_id, t.dropped_to + 1 as first, coalesce(h.position, t.dropped_to) + 1 as until
from headrace.topic t
left join lateral headrace.log_head(t.topic_id) h on true
where t.namespace = headrace.current_namespace(%(namespace)s)
order by t.topic;
