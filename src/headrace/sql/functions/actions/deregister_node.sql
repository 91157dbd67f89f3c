-- Records that a node has stopped in order. A node of a namespace in which the caller may not consume is left alone.
create or replace function headrace.deregister_node(p_node_id uuid, p_caller headrace_internal.caller default current_user) returns void
language sql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
    update headrace_internal.node n set stopped_at = headrace.clock()
    where n.node_id = p_node_id and headrace_internal.holds_level(p_caller, 'consume', n.namespace)
$$;
