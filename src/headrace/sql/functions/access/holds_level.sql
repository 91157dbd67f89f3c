-- Does the caller hold a level in a namespace ('any': one of them)? The owner, its members and superusers hold all. Never null; raises
-- 42501 for a null caller. The part that headrace_internal.authorize and authorize_id share: other functions call these.
-- Only for functions that run as the owner: they take current_user to be the owner.
create or replace function headrace_internal.holds_level(p_caller name, p_level text, p_namespace text) returns boolean
language plpgsql stable
as $$
begin
    if p_caller = current_user then
        return true;
    end if;
    return headrace_internal.above_namespaces(p_caller) or exists (
        select from headrace_internal.namespace_grant g
        where g.namespace = p_namespace and headrace_internal.level_includes(g.level, p_level) and pg_has_role(p_caller, g.role, 'usage'));
end
$$;
