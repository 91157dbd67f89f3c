-- The newest payloads of an event type in a topic's log, among the last %(scanned)s positions. Index: log_position, backwards.
select l.payload::text as payload
from headrace.log l
where l.topic_id = headrace.topic_id(%(topic)s, %(namespace)s) and l.type = %(event_type)s
    and l.position > (select h.position - %(scanned)s from headrace.log_head(headrace.topic_id(%(topic)s, %(namespace)s)) h)
order by l.position desc
limit %(sample)s;
