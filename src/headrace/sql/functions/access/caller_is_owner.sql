-- Does the caller stand above namespaces: the owner of headrace, one of its members, a superuser, or the role of a node? The public
-- views show it every namespace.
create or replace function headrace_internal.caller_is_owner(p_caller headrace_internal.caller default current_user) returns boolean
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return headrace_internal.above_namespaces(p_caller);
end
$$;
