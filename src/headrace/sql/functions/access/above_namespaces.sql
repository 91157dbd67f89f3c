-- Is a role the owner of headrace, one of its members, a superuser, or the role of a node? Such a role holds every level.
-- Never null. Raises 42501 for a null caller: a null of the domain headrace_internal.caller passes the domain's checks, for example as
-- the result of a subquery without rows. Every check of rights comes through here, unless the caller is the owner.
-- Only for functions that run as the owner: it takes current_user to be the owner.
create or replace function headrace_internal.above_namespaces(p_role name) returns boolean
language plpgsql stable
as $$
begin
    if p_role is null then
        raise exception 'permission denied: the caller is null'
            using errcode = '42501', hint = 'Leave p_caller out: its default is the role that calls.';
    end if;
    return p_role = current_user or pg_has_role(p_role, current_user, 'usage')
        or exists (select from headrace_internal.node_role n where pg_has_role(p_role, n.role, 'usage'));
end
$$;
