-- Lets a role run the loops of a node for every namespace: sequencer, rules, correlators, schedules, maintenance. It reads and writes
-- the data of all namespaces, but it is neither superuser nor owner. Only the owner may call it.
create or replace function headrace.grant_node(p_role text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into headrace_internal.node_role (role) values (headrace_internal.existing_role(p_role))
    on conflict on constraint node_role_pkey do nothing;
    perform headrace_internal.apply_grants(headrace_internal.existing_role(p_role));
end
$$;
