-- The policies that guard the tables: one per table and command.
create or replace function headrace_internal.wanted_policies() returns table (relation text, command text, definition text)
language sql immutable
as $$
    select g.relation, g.command, format(case g.command when 'insert' then 'with check (%1$s)'
        when 'update' then 'using (%1$s) with check (%1$s)' else 'using (%1$s)' end, headrace_internal.guard_condition(g.owned_by, g.level))
    from headrace_internal.guarded() g
    union all
    select 'namespace_grant', 'select', 'using (pg_has_role(current_user, role, ''usage''))'
$$;
