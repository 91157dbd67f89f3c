-- Nodes that were lost within the last day, and how many connections the live ones may open here.
select 'nodes' as check, 'warning' as level,
    format('%%s/%%s is lost: its last heartbeat was %%s s ago', n.namespace, n.name,
        round(extract(epoch from headrace.clock() - n.heartbeat_at))) as message,
    'read its log; other nodes take over its work' as advice
from headrace.node_state n
where n.state = 'lost' and n.heartbeat_at > headrace.clock() - interval '1 day'
union all
select 'connections', 'ok', format('%%s live nodes may open up to %%s: %%s', count(*), sum(n.connections),
        string_agg(format('%%s %%s', n.name, n.connections), ', ' order by n.name)), ''
from (
    select n.name, (n.metadata ->> 'connections')::integer as connections from headrace.node_state n
    where n.state = 'alive' and n.metadata ->> 'connections' ~ '^[0-9]{1,6}$'
) n
having count(*) > 0;
