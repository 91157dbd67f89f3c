-- When each of these events was handled: the end of its batch. Index: log_event_id.
select l.event_id, min(b.handled_at)
from headrace_internal.log l
join handled_batch b on b.partition = l.partition and l.position between b.first_position and b.last_position
where l.topic_id = (select headrace.topic_id('flights')) and l.event_id = any(%(ids)s)
group by l.event_id;
