-- The log's time of the event at a position.
select l.appended_at from headrace.read_log(%(topic_id)s, %(position)s - 1, 1) l where l.position = %(position)s;
