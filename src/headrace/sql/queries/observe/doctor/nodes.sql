-- Nodes that were lost within the last day.
select n.namespace, n.name, extract(epoch from headrace.clock() - n.heartbeat_at)::double precision as silent_s
from headrace.node_state n
where n.state = 'lost' and n.heartbeat_at > headrace.clock() - interval '1 day'
order by n.namespace, n.name;
