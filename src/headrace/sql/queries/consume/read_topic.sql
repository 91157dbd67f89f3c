-- The claimed events of the whole topic, in order. Index: log_position.
select l.position, l.partition, l.event_id, %(topic)s::text, l.type, l.key, l.payload, l.headers,
    l.emitted_at, l.appended_at, l.producer
from headrace.log l
where l.topic_id = %(topic_id)s and l.position > %(position)s and l.position <= %(upto)s
order by l.position;
