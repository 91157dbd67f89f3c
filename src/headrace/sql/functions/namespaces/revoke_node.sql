-- Takes from a role the right to run the loops of a node; its levels in namespaces stay. Only the owner may call it.
create or replace function headrace.revoke_node(p_role text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from headrace_internal.node_role n where n.role = headrace_internal.existing_role(p_role);
    perform headrace_internal.apply_grants(headrace_internal.existing_role(p_role));
end
$$;
