-- A node's heartbeat, with a report of what it did since the one before: see the column headrace.node_state.report. Forgets nodes
-- of its namespace without a heartbeat for a day. False: the node is not known (any more), or belongs to a namespace in which the caller may not consume; it
-- has to register again.
create or replace function headrace.heartbeat(
    p_node_id uuid, p_report jsonb default null, p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'consume');
begin
    update headrace_internal.node n set heartbeat_at = headrace.clock(), stopped_at = null, report = coalesce(p_report, n.report)
    where n.node_id = p_node_id and n.namespace = any (v_namespaces);
    if not found then
        return false;
    end if;
    delete from headrace_internal.node l
    using headrace_internal.node n
    where n.node_id = p_node_id and l.namespace = n.namespace and l.heartbeat_at < headrace.clock() - interval '1 day';
    return true;
end
$$;
