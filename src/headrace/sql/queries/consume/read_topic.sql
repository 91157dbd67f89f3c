-- The claimed events of the whole topic, in order. Index: log_position.
-- Operators are qualified: this runs on a handler's connection, under whatever search_path its database has.
select l.position, l.partition, l.event_id, %(topic)s::pg_catalog.text, l.type, l.key, l.payload, l.headers,
    l.emitted_at, l.appended_at, l.producer
from headrace.log l
where l.topic_id operator(pg_catalog.=) %(topic_id)s
    and l.position operator(pg_catalog.>) %(position)s and l.position operator(pg_catalog.<=) %(upto)s
order by l.position;
