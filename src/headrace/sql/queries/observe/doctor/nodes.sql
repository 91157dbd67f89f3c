-- Nodes that were lost within the last day.
select 'nodes' as check, 'warning' as level,
    format('%%s/%%s is lost: its last heartbeat was %%s s ago', n.namespace, n.name,
        round(extract(epoch from headrace.clock() - n.heartbeat_at))) as message,
    'read its log; other nodes take over its work' as advice
from headrace.node_state n
where n.state = 'lost' and n.heartbeat_at > headrace.clock() - interval '1 day'
order by n.namespace, n.name;
