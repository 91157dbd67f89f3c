-- The topics with rules, and the reserved consumer of each.
select c.topic_id, c.consumer_id, t.topic, t.namespace
from headrace_internal.consumer c
join headrace_internal.topic t on t.topic_id = c.topic_id
where c.consumer = 'headrace.rules'
order by c.topic_id;
