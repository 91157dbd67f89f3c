-- Nodes.
create or replace view headrace.node with (security_barrier) as
select n.node_id, n.namespace, n.name, n.description, n.metadata, n.version, n.started_at, n.heartbeat_at, n.stopped_at,
    n.handlers, n.consumers
from headrace_internal.node n
where n.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
