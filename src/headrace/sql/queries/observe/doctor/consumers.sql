-- Consumers with the number of stopped partitions, of partitions that keep failing, and of open dead letters.
select t.namespace, t.topic, c.consumer,
    (select count(*) from headrace_internal.cursor u where u.consumer_id = c.consumer_id and u.state = 'stopped') as stopped,
    (select count(*) from headrace_internal.cursor u
        where u.consumer_id = c.consumer_id and u.state = 'running' and u.attempts >= 3) as failing,
    (select count(*) from headrace_internal.dead_letter d where d.consumer_id = c.consumer_id and d.state in ('dead', 'behind')) as dead_letters
from headrace_internal.consumer c
join headrace_internal.topic t on t.topic_id = c.topic_id
order by t.namespace, t.topic, c.consumer;
