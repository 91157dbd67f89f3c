-- The time at which an event was appended to the log.
select l.appended_at from headrace.read_log(%(topic_id)s, %(position)s - 1, 1) l where l.position = %(position)s;
