-- What a level may do on the public views; each view shows only rows of the namespaces in which the reader holds the level it takes.
-- Nobody but the owner has a right on a table. Admins hold UPDATE by column and no DELETE: either of them on a whole view would let them
-- lock it in front of every other namespace. A definition is dropped by `set dropped = true`.
create or replace function headrace_internal.level_views(p_level text) returns table (privileges text, relation text)
language sql immutable
as $$
    select case v.privileges
            when 'insert, update' then format('insert, update (%s, dropped)', array_to_string(headrace_internal.definition_columns(r.relation), ', '))
            else v.privileges end, r.relation
    from (values
        ('any', 'select', '{namespace,namespace_grant,topic,outbox,event_type,action,event_schema,event_schema_version}'::text[]),
        ('publish', 'select', '{capture}'),
        -- Inserts nothing for a role that may not insert into the outbox itself.
        ('publish', 'insert', '{direct_event}'),
        ('consume', 'select', '{log,archive,consumer,cursor,dead_letter,schedule,schedule_due,schedule_tick,rule,rule_version,firing,
            correlator,correlator_version,correlator_table,correlator_instance,correlation,node,action_result,attempt,pipeline,
            pipeline_batch,consumer_lag,dead_letters,rule_state,event_history,event_unmatched,correlator_state,correlation_history,
            node_state,pipeline_state,stream,stream_output,failure,pause,relay,relay_version,relay_state}'),
        ('admin', 'select', '{access_token,hook,erasure}'),
        ('admin', 'insert, update', '{rule,correlator,relay,schedule,event_type,action}')
    ) v (level, privileges, relations)
    cross join pg_catalog.unnest(v.relations) r (relation)
    where headrace_internal.level_includes(p_level, v.level)
$$;
