-- How many seconds until the next timer of a topic's correlators is due. Index: correlator_instance_due.
select extract(epoch from min(d.deadline) - headrace.clock())::double precision
from headrace.correlator c
cross join lateral (
    select i.deadline from headrace_internal.correlator_instance i
    where i.correlator_id = c.correlator_id and i.deadline is not null order by i.deadline limit 1
) d
where c.topic_id = %(topic_id)s;
