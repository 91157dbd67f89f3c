-- Reports what a rule or correlator reads that the schema of its event type does not have, as the namespace treats unknown names:
-- 'refuse' raises HR352 for the errors, 'warn' warns about all, 'allow' says nothing. Takes the level admin.
create or replace function headrace.report_findings(
    p_errors text[], p_warnings text[], p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
    v_policy    text := (select n.unknown_names from headrace_internal.namespace n where n.namespace = v_namespace);
    v_finding   text;
begin
    if v_policy = 'allow' then
        return;
    end if;
    if v_policy = 'refuse' and cardinality(p_errors) > 0 then
        raise exception '%', array_to_string(p_errors, E'\n')
            using errcode = 'HR352', hint = 'Correct the condition or the schema, or let the namespace allow unknown names.';
    end if;
    foreach v_finding in array p_errors || p_warnings loop
        raise warning '%', v_finding;
    end loop;
end
$$;
