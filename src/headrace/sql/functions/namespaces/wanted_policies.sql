-- The policies that guard the tables: one per table and command.
create or replace function headrace_internal.wanted_policies() returns table (relation text, command text, definition text)
language sql immutable
as $$
    select g.relation, 'select', format('using (%s)', headrace_internal.guard_condition(g.owned_by, g.read_level))
    from headrace_internal.guarded() g
    union all
    select 'namespace_grant', 'select', 'using (pg_has_role(current_user, role, ''usage''))'
    union all
    -- Who is let at the outbox directly meets the same checks as one who calls headrace.publish.
    select g.relation, 'insert', format('with check (%s)', headrace_internal.guard_condition(g.owned_by, g.insert_level)
        || case g.relation when 'outbox' then ' and headrace_internal.event_within_limits(type, key, payload, headers, producer)'
            ' and headrace_internal.time_within_limits(emitted_at)' else '' end)
    from headrace_internal.guarded() g where g.insert_level is not null
    union all
    -- A topic's row may be locked by a consumer (to make a definite "latest"), changed by an admin only.
    select g.relation, 'update', format('using (%s) with check (%s)',
        headrace_internal.guard_condition(g.owned_by, case g.relation when 'topic' then 'consume' else g.update_level end),
        headrace_internal.guard_condition(g.owned_by, g.update_level))
    from headrace_internal.guarded() g where g.update_level is not null
    union all
    select g.relation, 'delete', format('using (%s)', headrace_internal.guard_condition(g.owned_by, g.delete_level))
    from headrace_internal.guarded() g where g.delete_level is not null
$$;
