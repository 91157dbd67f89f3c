-- A node's heartbeat. False: the node is not known (any more), or belongs to a namespace in which the caller may not consume; it
-- has to register again.
create or replace function headrace.heartbeat(p_node_id uuid, p_caller headrace_internal.caller default current_user) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update headrace_internal.node n set heartbeat_at = headrace.clock(), stopped_at = null
    where n.node_id = p_node_id and headrace_internal.holds_level(p_caller, 'consume', n.namespace);
    return found;
end
$$;
