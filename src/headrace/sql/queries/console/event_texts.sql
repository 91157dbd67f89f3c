-- Payload and headers of one event as text, so that no digit is lost: from the log, else from the outbox.
-- Index: log_event_id; the outbox is scanned, because it is short.
select e.payload::text, e.headers::text
from (
    select l.topic_id, l.payload, l.headers from headrace.log l where l.event_id = %(event_id)s
    union all
    select o.topic_id, o.payload, o.headers from headrace.outbox o where o.event_id = %(event_id)s
) e
where e.topic_id = headrace.topic_id(%(topic)s, %(namespace)s)
limit 1;
