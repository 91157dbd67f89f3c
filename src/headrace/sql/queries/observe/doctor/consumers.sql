-- Consumers with the number of events that the log keeps for one that no live node runs (relays have a check of their own), of stopped partitions,
-- of partitions that keep failing with an error of theirs, and of open dead letters.
-- A consumer of headrace itself retries what no user's code can have caused, so its first failure counts.
select t.namespace, t.topic, c.consumer,
    (select count(*) from headrace_internal.cursor u where u.consumer_id = c.consumer_id and u.state = 'stopped') as stopped,
    f.failing,
    (select count(*) from headrace_internal.dead_letter d where d.consumer_id = c.consumer_id and d.state in ('dead', 'behind')) as dead_letters,
    f.error,
    case when c.consumer not like 'headrace.%%' and c.consumer not like 'relay.%%' and not exists (
            select from headrace_internal.node n
            where n.namespace = t.namespace and n.stopped_at is null and n.heartbeat_at > headrace.clock() - interval '90 seconds'
                and n.consumers @> array[t.topic || '/' || c.consumer])
        -- A cursor of a quiet partition may be far behind the head, and keeps nothing.
        then (select h.position - min(n.position) + 1
            from headrace.log_head(t.topic_id) h
            cross join headrace_internal.cursor u
            cross join lateral (select case when u.partition >= 0
                then headrace_internal.next_position(t.topic_id, u.partition, u.position)
                when u.position < h.position then greatest(u.position, t.dropped_to) + 1 end) n (position)
            where u.consumer_id = c.consumer_id group by h.position) end as kept
from headrace_internal.consumer c
join headrace_internal.topic t on t.topic_id = c.topic_id
cross join lateral (
    select count(*) as failing, split_part(rtrim(max(u.error), E'\n'), E'\n', case when c.consumer like 'headrace.%%' then 1 else -1 end) as error
    from headrace_internal.cursor u
    where u.consumer_id = c.consumer_id and u.state = 'running' and u.error is not null
        and u.attempts >= case when c.consumer like 'headrace.%%' then 1 else 3 end
) f
order by t.namespace, t.topic, c.consumer;
