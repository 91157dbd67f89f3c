-- Revokes a level in a namespace from a role; all levels if p_level is null.
create or replace function headrace.revoke_namespace(p_role text, p_namespace text, p_level text default null) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from headrace_internal.namespace_grant g
    where g.role = headrace_internal.existing_role(p_role) and g.namespace = p_namespace and g.level = coalesce(p_level, g.level);
    perform headrace_internal.apply_grants(headrace_internal.existing_role(p_role));
end
$$;
