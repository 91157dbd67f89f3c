-- Dead letters of consumers.
select c.consumer, d.position, d.event_id, d.type, d.key, d.state, d.attempts
from headrace_internal.dead_letter d join headrace_internal.consumer c on c.consumer_id = d.consumer_id
join headrace_internal.topic t on t.topic_id = c.topic_id and t.namespace = 'default'
order by d.position;
