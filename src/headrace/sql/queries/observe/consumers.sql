-- How far each consumer of a topic is with one event: its dead letter if there is one, else whether its cursor has passed the event.
-- A cursor that passed it while the consumer is younger than the event may have started behind it. Indexes: cursor_pkey,
-- dead_letter_once.
select c.consumer, u.position, coalesce(nodes.nodes, 0) as nodes, u.error, u.retry_at,
    case when d.state = 'dead' then 'dead letter' when d.state = 'behind' then 'waits behind a dead letter'
        when d.state = 'redrive' then 'will be redriven' when d.state = 'redriven' then 'handled, after a redrive'
        when d.state = 'discarded' then 'discarded'
        when u.position >= %(position)s::bigint and c.created_at > %(appended_at)s then 'passed'
        when u.position >= %(position)s::bigint then 'handled'
        when u.state = 'stopped' then 'stopped'
        when nodes.nodes = 0 then 'idle' when u.retry_at is not null then 'retrying' else 'waiting' end as state
from headrace.consumer c
join headrace.cursor u on u.consumer_id = c.consumer_id and u.partition in (-1, %(partition)s)
left join headrace.dead_letter d on d.consumer_id = c.consumer_id and d.position = %(position)s::bigint
cross join lateral (
    select count(*) as nodes from headrace.node_state n
    where n.state = 'alive' and n.namespace = %(namespace)s and n.consumers @> array[%(topic)s::text || '/' || c.consumer]
) nodes
where c.topic_id = %(topic_id)s and %(position)s::bigint is not null and c.consumer not like 'headrace.%%'
order by c.consumer;
