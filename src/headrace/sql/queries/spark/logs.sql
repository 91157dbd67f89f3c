-- The topics of a namespace: the first position in archive or log, the next position, and the first one that the log itself has.
-- Indexes: topic_name_unique, log_position backwards, archive_position.
select t.topic_id, t.topic,
    coalesce(case when %(archive)s and t.dropped_to > 0 then headrace.archived_from(t.topic_id, t.dropped_to) end, t.dropped_to + 1) as first,
    coalesce(h.position, t.dropped_to) + 1 as until, t.dropped_to + 1 as log_first
from headrace.topic t
left join lateral headrace.log_head(t.topic_id) h on true
where t.namespace = headrace.current_namespace(%(namespace)s)
order by t.topic;
