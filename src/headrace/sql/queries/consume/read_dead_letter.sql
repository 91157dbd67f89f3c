-- A dead letter as an event, with its payload as it was edited.
-- Operators are qualified: this runs on a handler's connection, under whatever search_path its database has.
-- Index: dead_letter_pkey. The log may have dropped the event.
select d.position, d.partition, d.event_id, t.topic, d.type, d.key, coalesce(d.edited_payload, d.payload), d.headers,
    coalesce(l.emitted_at, d.buried_at), coalesce(l.appended_at, d.buried_at), l.producer
from headrace.dead_letter d
join headrace.consumer c on c.consumer_id operator(pg_catalog.=) d.consumer_id
join headrace.topic t on t.topic_id operator(pg_catalog.=) c.topic_id
left join lateral headrace.read_log(t.topic_id, d.position operator(pg_catalog.-) 1, 1) l on l.position operator(pg_catalog.=) d.position
where d.dead_letter_id operator(pg_catalog.=) %(dead_letter_id)s;
