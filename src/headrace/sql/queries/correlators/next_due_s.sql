-- How many seconds until the correlator's next timer is due; null where it waits for events anyway
-- or is paused. Index: correlator_instance_due.
select extract(epoch from min(i.deadline) - headrace.clock())
from headrace_internal.correlator_instance i
join headrace_internal.correlator c on c.correlator_id = i.correlator_id
join headrace_internal.topic t on t.topic_id = c.topic_id and t.clock = 'server'
where i.correlator_id = %(correlator_id)s and i.deadline is not null
    and not exists (
        select from headrace_internal.correlator_table t join headrace_internal.pause p on p.consumer_id = t.consumer_id
        where t.correlator_id = %(correlator_id)s);
