-- The closed time partitions of a topic that ended before a time, and whether the archive holds them. Nothing is written to them
-- any more: the server's time is past their end by more than a sequencer needs; or, if the log's time is that of the events, the
-- newest event is past it. Index: log_position in each partition, backwards for the newest event.
select p.name::text as name, p.from_at, p.to_at, coalesce(e.events, 0) as events,
    headrace.is_archived(t.topic_id, e.first_position, e.last_position) as archived
from headrace.topic t
cross join lateral headrace.time_partitions(t.topic_id) p
cross join lateral (
    select max(l.position) - min(l.position) + 1 as events, min(l.position) as first_position, max(l.position) as last_position
    from headrace.log l
    where l.topic_id = t.topic_id and l.appended_at >= p.from_at and l.appended_at < p.to_at
) e
where t.topic_id = headrace.topic_id(%(topic)s, %(namespace)s)
    and p.to_at <= coalesce(%(before)s, headrace.clock())
    and p.to_at <= case when t.clock = 'server' then headrace.clock() - interval '1 minute'
        else (select h.appended_at from headrace.log_head(t.topic_id) h) end
order by p.from_at;
