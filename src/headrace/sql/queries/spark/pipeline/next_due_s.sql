-- Seconds until the next timer of a topic's correlators is due; null on the event clock, where timers wait for events anyway.
-- Index: correlator_instance_due.
select extract(epoch from min(d.deadline) - headrace.clock())::double precision
from headrace_internal.topic t
join headrace_internal.correlator c on c.topic_id = t.topic_id
cross join lateral (
    select i.deadline from headrace_internal.correlator_instance i
    where i.correlator_id = c.correlator_id and i.deadline is not null order by i.deadline limit 1
) d
where t.topic_id = %(topic_id)s and t.clock = 'server';
