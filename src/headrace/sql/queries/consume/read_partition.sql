-- The claimed events of one partition, in order. Index: log_partition.
select l.position, l.partition, l.event_id, %(topic)s::text, l.type, l.key, l.payload, l.headers,
    l.emitted_at, l.appended_at, l.producer
from headrace.log l
where l.topic_id = %(topic_id)s and l.partition = %(partition)s and l.position > %(position)s and l.position <= %(upto)s
order by l.position;
