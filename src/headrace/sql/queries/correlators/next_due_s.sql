-- How many seconds until the correlator's next timer is due; null where it waits for events anyhow. Index: correlator_instance_due.
select extract(epoch from min(i.deadline) - headrace.clock())
from headrace_internal.correlator_instance i
join headrace_internal.correlator c on c.correlator_id = i.correlator_id
join headrace_internal.topic t on t.topic_id = c.topic_id and t.clock = 'server'
where i.correlator_id = %(correlator_id)s and i.deadline is not null;
