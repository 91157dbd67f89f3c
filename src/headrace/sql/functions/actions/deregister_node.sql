-- A node ends in order.
create or replace function headrace.deregister_node(p_node_id uuid) returns void
language sql volatile
as $$
    update headrace_internal.node n set stopped_at = headrace.clock() where n.node_id = p_node_id
$$;
