-- The policies that guard the tables: one per table and command.
create or replace function headrace_internal.wanted_policies() returns table (relation text, command text, definition text)
language sql immutable
as $$
    select g.relation, 'select', format('using (%s)', headrace_internal.guard_condition(g.owned_by, g.read_level))
    from headrace_internal.guarded() g
    union all
    select 'namespace_grant', 'select', 'using (pg_has_role(current_user, role, ''usage''))'
    union all
    select g.relation, 'insert', format('with check (%s)', headrace_internal.guard_condition(g.owned_by, g.insert_level))
    from headrace_internal.guarded() g where g.insert_level is not null
    union all
    select g.relation, 'update', format('using (%1$s) with check (%1$s)', headrace_internal.guard_condition(g.owned_by, g.update_level))
    from headrace_internal.guarded() g where g.update_level is not null
    union all
    select g.relation, 'delete', format('using (%s)', headrace_internal.guard_condition(g.owned_by, g.delete_level))
    from headrace_internal.guarded() g where g.delete_level is not null
$$;
