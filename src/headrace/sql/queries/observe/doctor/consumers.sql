-- Consumers with the number of stopped partitions, of partitions that keep failing with an error of theirs, and of open dead letters.
-- A consumer of headrace itself retries what no user's code can have caused, so its first failure counts.
select t.namespace, t.topic, c.consumer,
    (select count(*) from headrace_internal.cursor u where u.consumer_id = c.consumer_id and u.state = 'stopped') as stopped,
    f.failing,
    (select count(*) from headrace_internal.dead_letter d where d.consumer_id = c.consumer_id and d.state in ('dead', 'behind')) as dead_letters,
    f.error
from headrace_internal.consumer c
join headrace_internal.topic t on t.topic_id = c.topic_id
cross join lateral (
    select count(*) as failing, split_part(rtrim(max(u.error), E'\n'), E'\n', case when c.consumer like 'headrace.%%' then 1 else -1 end) as error
    from headrace_internal.cursor u
    where u.consumer_id = c.consumer_id and u.state = 'running' and u.error is not null
        and u.attempts >= case when c.consumer like 'headrace.%%' then 1 else 3 end
) f
order by t.namespace, t.topic, c.consumer;
