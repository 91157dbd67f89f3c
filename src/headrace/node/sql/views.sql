-- Nodes.
create or replace view headrace.node with (security_barrier) as
select n.node_id, n.namespace, n.name, n.description, n.metadata, n.version, n.started_at, n.heartbeat_at, n.stopped_at,
    n.handlers, n.consumers
from headrace_internal.node n
where n.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');

-- Nodes and their state: 'alive', 'lost' (no heartbeat for 90 seconds, and not deregistered), 'stopped'.
create or replace view headrace.node_state with (security_barrier) as
select n.node_id, n.namespace, n.name, n.description, n.metadata, n.version, n.started_at, n.heartbeat_at, n.stopped_at, n.handlers,
    case when n.stopped_at is not null then 'stopped'
        when n.heartbeat_at > headrace.clock() - interval '90 seconds' then 'alive' else 'lost' end as state,
    n.consumers, n.sequencer, n.report
from headrace_internal.node n
where n.namespace in (select k.namespace from headrace_internal.caller_level k where k.level = 'consume');
