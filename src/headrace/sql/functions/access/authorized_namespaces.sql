-- The namespaces in which the caller holds a level, in order; raises 42501 for a null caller. The first statement of functions that run
-- as the owner and pass over what the caller may not see, instead of raising.
create or replace function headrace_internal.authorized_namespaces(p_caller name, p_level text) returns text[]
language plpgsql stable
as $$
begin
    if headrace_internal.above_namespaces(p_caller) then
        return array(select n.namespace from headrace_internal.namespace n order by n.namespace);
    end if;
    return array(
        select g.namespace from headrace_internal.namespace_grant g
        where headrace_internal.level_includes(g.level, p_level) and pg_has_role(p_caller, g.role, 'usage')
        group by g.namespace order by g.namespace);
end
$$;
