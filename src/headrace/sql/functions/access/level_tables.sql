-- What a level may do on which tables, before row-level security says on which rows. A publisher sees that its events wait in the
-- outbox, but does not read them.
create or replace function headrace_internal.level_tables(p_level text) returns table (privileges text, relation text)
language sql immutable
as $$
    select p.privilege || case
        when p.relation = 'outbox' and p_level <> 'admin' then ' (event_id, topic_id)' else '' end, p.relation
    from (
        select 'select' as privilege, g.relation, g.read_level as level from headrace_internal.guarded() g
        union all select 'insert', g.relation, g.insert_level from headrace_internal.guarded() g
        union all select 'update', g.relation, g.update_level from headrace_internal.guarded() g
        union all select 'delete', g.relation, g.delete_level from headrace_internal.guarded() g
    ) p
    where p.level in (p_level, 'any') or (p_level = 'admin' and p.level is not null)
    union all
    select 'select', 'namespace_grant'
    union all
    select 'select', v.relation
    from unnest('{consumer_lag,dead_letters,rule_state,event_history,event_unmatched,correlator_state,correlation_history,node_state,
        pipeline_state}'::text[]) v (relation)
    where p_level in ('consume', 'admin')
$$;
