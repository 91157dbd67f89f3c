-- Is a role the owner of headrace, one of its members, a superuser, or the role of a node? Such a role holds every level.
-- Only for functions that run as the owner: it takes current_user to be the owner.
create or replace function headrace_internal.above_namespaces(p_role name) returns boolean
language plpgsql stable
as $$
begin
    return p_role = current_user or pg_has_role(p_role, current_user, 'usage')
        or exists (select from headrace_internal.node_role n where pg_has_role(p_role, n.role, 'usage'));
end
$$;
