-- name: nodes
-- Selects the nodes of a namespace, alive ones first, then by start time.
select n.node_id, n.namespace, n.name, n.description, n.metadata, n.version, n.state, n.handlers, n.started_at, n.heartbeat_at,
    n.stopped_at, n.sequencer, n.report
from headrace.node_state n
where n.namespace = headrace.current_namespace(%(namespace)s) and (%(all)s or n.state <> 'stopped')
order by n.state <> 'alive', n.started_at;
