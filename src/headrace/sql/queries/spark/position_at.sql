-- The first position appended at a time or later; null when there is none. Index: log_position, in the time partitions from there on.
select min(l.position) from headrace_internal.log l where l.topic_id = %(topic_id)s and l.appended_at >= %(at)s;
