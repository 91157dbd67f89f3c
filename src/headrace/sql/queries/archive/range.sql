-- The range of one topic: the first position in archive or log, the next position to be written, and the first in the log.
-- Indexes: topic_pkey, log_position backwards, archive_position.
select t.topic_id, t.topic, coalesce(headrace.archived_from(t.topic_id, t.dropped_to), t.dropped_to + 1) as first,
    coalesce(h.position, t.dropped_to) + 1 as until, t.dropped_to + 1 as log_first
from headrace.topic t
left join lateral headrace.log_head(t.topic_id) h on true
where t.topic_id = headrace.topic_id(%(topic)s, %(namespace)s);
