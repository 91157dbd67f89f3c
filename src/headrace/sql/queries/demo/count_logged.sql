-- How many of these events are in the log. Index: log_event_id.
select count(*) from headrace_internal.log l where l.topic_id = (select headrace.topic_id('flights')) and l.event_id = any(%(ids)s);
