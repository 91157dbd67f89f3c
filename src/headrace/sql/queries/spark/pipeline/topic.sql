-- A topic with the engine it runs on and the end of its log. Indexes: topic_pkey, log_position backwards.
select t.topic_id, t.engine, coalesce(h.position, t.dropped_to) as head
from headrace_internal.topic t
left join lateral headrace.log_head(t.topic_id) h on true
where t.topic_id = headrace.topic_id(%(topic)s, %(namespace)s);
