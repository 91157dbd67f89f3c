-- The first position appended at a time or later; null if there is none. Index: log_position, in the time partitions from then on.
select min(l.position) from headrace.log l where l.topic_id = %(topic_id)s and l.appended_at >= %(at)s;
