-- Registers which consumers a node runs, as topic/consumer; after headrace.register_node. A consumer that no live node runs is idle.
-- False: the node is not known, or belongs to a namespace in which the caller may not consume.
create or replace function headrace.register_consumers(
    p_node_id uuid, p_consumers text[], p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'consume');
begin
    update headrace_internal.node n set consumers = p_consumers
    where n.node_id = p_node_id and n.namespace = any (v_namespaces);
    return found;
end
$$;
