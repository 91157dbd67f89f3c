-- Counts over the log of the flights: events, positions, ids, and events out of the order of time.
select count(*) as events, coalesce(min(o.position), 0) as first_position, coalesce(max(o.position), 0) as last_position,
    count(distinct o.position) as positions, count(distinct o.event_id) as ids,
    count(*) filter (where o.emitted_at < o.before) as out_of_order
from (
    select l.position, l.event_id, l.emitted_at, lag(l.emitted_at) over (order by l.position) as before
    from headrace_internal.log l where l.topic_id = (select headrace.topic_id('flights'))
) o;
