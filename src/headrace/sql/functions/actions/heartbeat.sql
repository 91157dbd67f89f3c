-- A node's sign of life. False: it is not known (any more) and has to register again.
create or replace function headrace.heartbeat(p_node_id uuid) returns boolean
language plpgsql volatile
as $$
begin
    update headrace_internal.node n set heartbeat_at = headrace.clock(), stopped_at = null where n.node_id = p_node_id;
    return found;
end
$$;
