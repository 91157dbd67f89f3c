-- What a level may do on which tables, before row-level security says on which rows. A publisher sees that its events wait in the
-- outbox, but does not read them.
create or replace function headrace_internal.level_tables(p_level text) returns table (privileges text, relation text)
language sql immutable
as $$
    select g.command || case when g.relation = 'outbox' and p_level <> 'admin' then ' (event_id, topic_id)' else '' end, g.relation
    from headrace_internal.guarded() g
    where p_level = 'admin' or g.level in (p_level, 'any')
    union all
    select 'select', 'namespace_grant'
    union all
    select 'select', v.relation
    from unnest('{consumer_lag,dead_letters,rule_state,event_history,event_unmatched,correlator_state,correlation_history,node_state,
        pipeline_state}'::text[]) v (relation)
    where p_level in ('consume', 'admin')
$$;
