-- The time at which an event was appended to the log. Index: log_position.
select l.appended_at from headrace.log l where l.topic_id = %(topic_id)s and l.position = %(position)s;
