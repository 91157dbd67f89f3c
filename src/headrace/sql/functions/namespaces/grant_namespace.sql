-- Lets a role publish in a namespace, consume in it, or do everything in it ('admin'). Only the owner may call it.
-- Give an application's role one namespace, and make it the default of its sessions: alter role … set headrace.namespace = …
create or replace function headrace.grant_namespace(p_role text, p_namespace text, p_level text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.namespace_exists(p_namespace);
    insert into headrace_internal.namespace_grant (role, namespace, level)
    values (headrace_internal.existing_role(p_role), p_namespace, p_level)
    on conflict on constraint namespace_grant_pkey do nothing;
    perform headrace_internal.apply_grants(headrace_internal.existing_role(p_role));
end
$$;
