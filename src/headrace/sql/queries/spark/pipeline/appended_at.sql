-- The log's time of the event at a position. Index: log_position.
select l.appended_at from headrace_internal.log l where l.topic_id = %(topic_id)s and l.position = %(position)s limit 1;
