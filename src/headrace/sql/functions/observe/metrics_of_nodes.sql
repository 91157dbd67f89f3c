-- Metric headrace_node_up: 1 for a node that is alive, 0 for one that is lost: it has sent no heartbeat for 90 seconds, and did not stop
-- in order. A lost node is forgotten after a day. Two nodes of one name count as up if one of them is.
create or replace function headrace_internal.metrics_of_nodes(p_namespaces text[])
returns table (metric text, labels text[], value double precision)
language sql stable
as $$
    select 'headrace_node_up', array[n.namespace, n.name],
        max((n.heartbeat_at > headrace.clock() - interval '90 seconds')::integer)::double precision
    from headrace_internal.node n
    where n.stopped_at is null and n.namespace = any (p_namespaces)
    group by n.namespace, n.name
$$;
