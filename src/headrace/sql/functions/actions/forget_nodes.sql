-- Deletes the rows of nodes that are lost or have stopped: one by its name or id, or all lost ones. Returns how many. A node that is
-- alive is left alone (HR200); HR105: there is no such node. A forgotten node that comes back registers again.
create or replace function headrace.forget_nodes(
    p_node text default null, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_count     integer;
begin
    delete from headrace_internal.node n
    where n.namespace = v_namespace and (p_node is null and n.stopped_at is null or p_node in (n.name, n.node_id::text))
        and (n.stopped_at is not null or n.heartbeat_at <= headrace.clock() - interval '90 seconds');
    get diagnostics v_count = row_count;
    if v_count = 0 and exists (
            select from headrace_internal.node n where n.namespace = v_namespace and p_node in (n.name, n.node_id::text)) then
        raise exception 'node "%" is alive', p_node
            using errcode = 'HR200', hint = 'Stop it first. A node without a heartbeat for 90 seconds is lost and can be forgotten.';
    end if;
    if v_count = 0 and p_node is not null then
        raise exception 'namespace "%" has no node "%"', v_namespace, p_node
            using errcode = 'HR105', hint = 'See: select name, state from headrace.node_state.';
    end if;
    return v_count;
end
$$;
