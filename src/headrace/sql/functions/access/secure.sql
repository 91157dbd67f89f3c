-- Brings all rights up to date; the migrator calls it at its end. Nothing is executable by PUBLIC, and roles have exactly what their
-- grants call for: functions and views, never a table.
create or replace function headrace_internal.secure() returns void
language plpgsql volatile
as $$
declare
    v_role regrole;
begin
    revoke all on schema headrace, headrace_internal from public;
    revoke all on all functions in schema headrace, headrace_internal from public;
    revoke all on all tables in schema headrace, headrace_internal from public;
    for v_role in
        select g.role from (
            select g.role from headrace_internal.namespace_grant g union select n.role from headrace_internal.node_role n) g
        join pg_roles r on r.oid = g.role
    loop
        perform headrace_internal.apply_grants(v_role);
    end loop;
end
$$;
