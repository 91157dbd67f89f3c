-- Events of a topic after a position, in order, whose type fits one of the patterns and whose key is the given one, with JSON as
-- text so that no digit is lost. Every row has the oldest and the newest position of the log, and how many events there were before
-- the limit of bytes; without events there is one row. Index: log_position. A rare type reads a limited number of rows.
select h.oldest, h.newest, e.events, e.position, e.partition, e.event_id, e.type, e.key, e.payload::text as payload,
    e.headers::text as headers, e.emitted_at, e.appended_at, e.producer
from (
    select
        (select l.position from headrace.log l where l.topic_id = %(topic_id)s order by l.position limit 1) as oldest,
        (select l.position from headrace.log l where l.topic_id = %(topic_id)s order by l.position desc limit 1) as newest
) h
left join lateral (
    select p.position, p.partition, p.event_id, p.type, p.key, p.payload, p.headers, p.emitted_at, p.appended_at, p.producer,
        count(*) over () as events,
        -- By the stored size, which is known without reading the payload. The first event always fits.
        coalesce(sum(pg_column_size(p.payload)) over (order by p.position rows between unbounded preceding and 1 preceding), 0) as bytes_before
    from (
        select l.position, l.partition, l.event_id, l.type, l.key, l.payload, l.headers, l.emitted_at, l.appended_at, l.producer
        from headrace.log l
        where l.topic_id = %(topic_id)s and l.position > %(after)s
            -- One snapshot has both: everything up to the newest position is visible.
            and l.position <= least(h.newest, greatest(%(after)s, h.oldest - 1) + %(scan)s)
            and (%(types)s::text[] is null or l.type like any (%(types)s::text[]))
            and (%(granted_types)s::text[] is null or l.type like any (%(granted_types)s::text[]))
            and (%(key)s::text is null or l.key = %(key)s)
        order by l.position
        limit %(limit)s
    ) p
) e on e.bytes_before < %(bytes)s
order by e.position;
