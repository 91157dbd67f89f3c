-- Records that a node has stopped in order. A node of a namespace in which the caller may not consume is left alone.
create or replace function headrace.deregister_node(p_node_id uuid, p_caller headrace_internal.caller default current_user) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'consume');
begin
    update headrace_internal.node n set stopped_at = headrace.clock()
    where n.node_id = p_node_id and n.namespace = any (v_namespaces);
end
$$;
