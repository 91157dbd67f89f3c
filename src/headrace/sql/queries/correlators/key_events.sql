-- The newest events of a key of a correlator, oldest first, with payload and headers as texts so that no digit is lost. {key} is the
-- key's expression, printed from our own tree. Reads the topic from a time on. Index: log_position.
select e.position, e.type, e.key, e.payload, e.headers, e.emitted_at, e.appended_at
from (
    select l.position, l.type, l.key, l.payload::text as payload, l.headers::text as headers, l.emitted_at, l.appended_at
    from headrace.log l
    where l.topic_id = %(topic_id)s and l.appended_at >= %(since)s and l.position > %(after)s
        and ({key}) = %(key)s
    order by l.position desc
    limit %(limit)s
) e
order by e.position
