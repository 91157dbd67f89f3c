-- A dead letter as the event it was, with its payload and headers as they are now (they may have been edited).
-- Index: dead_letter_pkey; log_position, where the log still has it.
select d.position, d.partition, d.event_id, t.topic, d.type, d.key, d.payload, d.headers,
    coalesce(l.emitted_at, d.buried_at), coalesce(l.appended_at, d.buried_at), l.producer
from headrace_internal.dead_letter d
join headrace_internal.consumer c on c.consumer_id = d.consumer_id
join headrace.topic t on t.topic_id = c.topic_id
left join headrace_internal.log l on l.topic_id = t.topic_id and l.position = d.position
where d.dead_letter_id = %(dead_letter_id)s;
