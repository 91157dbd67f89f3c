-- A time partition by day: positions, times, number of events, and a checksum that the file must have too.
-- The hashed text of a row is unambiguous: free text is preceded by its length in characters, and - means null.
select (l.appended_at at time zone 'UTC')::date as day, min(l.position) as first_position, max(l.position) as last_position,
    min(l.appended_at) as first_at, max(l.appended_at) as last_at, count(*) as events,
    sum(('x' || left(encode(sha256(convert_to(concat_ws(' ',
        l.position, (extract(epoch from l.appended_at) * 1000000)::bigint, (extract(epoch from l.emitted_at) * 1000000)::bigint,
        l.partition, l.event_id, l.type, coalesce(length(l.key) || ':' || l.key, '-'),
        coalesce(length(l.producer) || ':' || l.producer, '-'), length(l.headers::text) || ':' || l.headers::text, l.payload::text
        ), 'UTF8')), 'hex'), 15))::bit(60)::bigint)::text as checksum
from headrace.log l
where l.topic_id = %(topic_id)s and l.appended_at >= %(from_at)s and l.appended_at < %(to_at)s
group by 1
order by 1;
