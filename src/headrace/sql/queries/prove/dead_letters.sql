-- Dead letters of consumers.
select c.consumer, d.position, d.event_id, d.type, d.key, d.state, d.attempts
from headrace_internal.dead_letter d join headrace_internal.consumer c on c.consumer_id = d.consumer_id
order by d.position;
