-- Nodes that were lost within the last day, one line per namespace, and how many connections the live ones may open here.
select 'nodes' as check, 'warning' as level,
    case when count(*) = 1 then
        format('%%s/%%s is lost: its last heartbeat was %%s s ago', n.namespace, min(n.name),
            round(extract(epoch from headrace.clock() - max(n.heartbeat_at))))
    else
        format('%%s: %%s nodes are lost, the last heartbeat of the newest was %%s s ago: %%s', n.namespace, count(*),
            round(extract(epoch from headrace.clock() - max(n.heartbeat_at))),
            array_to_string((array_agg(n.name order by n.heartbeat_at desc))[:3], ', ') || case when count(*) > 3 then ', …' else '' end)
    end as message,
    format('read their logs; other nodes take over their work; then run: headrace node forget --lost --namespace %%s', n.namespace) as advice
from headrace.node_state n
where n.state = 'lost' and n.heartbeat_at > headrace.clock() - interval '1 day'
group by n.namespace
union all
select 'connections', 'ok', format('%%s live nodes may open up to %%s: %%s', count(*), sum(n.connections),
        string_agg(format('%%s %%s', n.name, n.connections), ', ' order by n.name)), ''
from (
    select n.name, (n.metadata ->> 'connections')::integer as connections from headrace.node_state n
    where n.state = 'alive' and n.metadata ->> 'connections' ~ '^[0-9]{1,6}$'
) n
having count(*) > 0;
