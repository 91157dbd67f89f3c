-- One topic: the first position there is, in archive or log, the one that comes next, and the log's own first.
-- Indexes: topic_pkey, log_position backwards, archive_position.
select t.topic_id, t.topic, coalesce(headrace_internal.archived_from(t.topic_id, t.dropped_to), t.dropped_to + 1) as first,
    coalesce(h.position, t.dropped_to) + 1 as until, t.dropped_to + 1 as logged
from headrace.topic t
left join lateral headrace_internal.log_head(t.topic_id) h on true
where t.topic_id = headrace_internal.topic_id(%(topic)s, %(namespace)s);
