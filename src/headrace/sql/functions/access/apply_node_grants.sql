-- Gives the role of a node what its loops need: every function, and rows of the internal tables. It is not the owner: it cannot
-- create, alter or drop anything, and it cannot grant. What needs the owner's rights is done by functions that run as the owner.
create or replace function headrace_internal.apply_node_grants(p_role regrole) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('grant usage on schema headrace, headrace_internal to %s', p_role);
    execute format('grant execute on all functions in schema headrace, headrace_internal to %s', p_role);
    execute format('revoke execute on function headrace.grant_namespace, headrace.revoke_namespace, headrace.grant_node,'
        ' headrace.revoke_node, headrace_internal.apply_grants, headrace_internal.apply_node_grants, headrace_internal.secure from %s', p_role);
    execute format('grant select, insert, update, delete on all tables in schema headrace_internal to %s', p_role);
    execute format('revoke insert, update, delete on headrace_internal.namespace_grant, headrace_internal.node_role,'
        ' headrace_internal.migration from %s', p_role);
    execute format('grant usage on all sequences in schema headrace_internal to %s', p_role);
    execute format('grant select, insert, update, delete on all tables in schema headrace to %s', p_role);
end
$$;
