-- How every table is guarded: whose rows they are (the column that leads to the namespace), and the level it takes to read
-- and to write them; null: nobody but the owner. A table that is not named here is closed. A test compares this with the catalog.
create or replace function headrace.guarded()
returns table (relation text, owned_by text, read_level text, insert_level text, update_level text, delete_level text)
language sql immutable
as $$
    values
        ('namespace', 'namespace', 'any', null, null, null),
        ('topic', 'namespace', 'any', 'admin', 'admin', 'admin'),
        ('topic_border', 'topic', 'consume', 'admin', 'admin', null),
        ('outbox', 'topic', 'any', 'publish', null, 'admin'),
        ('log', 'topic', 'consume', null, null, null),
        ('archive', 'topic', 'consume', 'admin', null, 'admin'),
        ('consumer', 'topic', 'consume', 'consume', 'consume', 'consume'),
        ('cursor', 'consumer', 'consume', 'consume', 'consume', null),
        ('dead_letter', 'consumer', 'consume', 'consume', 'consume', null),
        ('capture', 'topic', 'publish', 'admin', 'admin', 'admin'),
        ('schedule', 'namespace', 'consume', 'admin', 'admin', 'admin'),
        ('schedule_due', 'schedule', 'consume', 'admin', null, 'admin'),
        ('schedule_tick', 'schedule', 'consume', 'admin', null, null),
        ('event_type', 'namespace', 'any', 'admin', 'admin', 'admin'),
        ('action', 'namespace', 'any', 'admin', 'admin', 'admin'),
        ('rule', 'namespace', 'consume', 'admin', 'admin', 'admin'),
        ('rule_version', 'namespace', 'consume', 'admin', 'admin', null),
        ('firing', 'topic', 'consume', null, null, null),
        ('correlator', 'namespace', 'consume', 'admin', 'admin', 'admin'),
        ('correlator_version', 'namespace', 'consume', 'admin', 'admin', null),
        ('correlator_table', 'correlator', 'consume', null, null, null),
        ('correlator_instance', 'correlator', 'consume', null, null, null),
        ('correlation', 'topic', 'consume', null, null, null),
        ('queue', 'namespace', 'any', null, 'consume', null),
        ('node', 'namespace', 'consume', 'consume', 'consume', 'consume'),
        ('action_result', 'namespace', 'consume', 'consume', null, null),
        ('attempt', 'namespace', 'consume', 'consume', null, null),
        ('spark_batch', 'namespace', 'any', 'publish', null, 'publish'),
        ('spark_stage', 'namespace', 'publish', 'publish', null, 'publish'),
        ('pipeline', 'topic', 'consume', null, null, null),
        ('pipeline_batch', 'topic', 'consume', null, null, null)
$$;

-- The condition under which the current role holds a level on a row, by what the row is owned by.
-- The functions stand in FROM: there PostgreSQL merges them into the statement's own, cached plan (a publish of such a role took 200 µs instead of 400).
create or replace function headrace.guard_condition(p_owned_by text, p_level text) returns text
language sql immutable
as $$
    select format(case p_owned_by
        when 'namespace' then 'namespace in (select g.namespace from headrace.granted(%1$L) g (namespace))'
        when 'topic' then 'topic_id in (select g.topic_id from headrace.granted_topics(%1$L) g (topic_id))'
        when 'consumer' then 'consumer_id in (select c.consumer_id from headrace.consumer c'
            ' join headrace.granted_topics(%1$L) g (topic_id) on g.topic_id = c.topic_id)'
        when 'correlator' then 'correlator_id in (select c.correlator_id from headrace.correlator c'
            ' join headrace.granted(%1$L) g (namespace) on g.namespace = c.namespace)'
        when 'schedule' then 'schedule_id in (select s.schedule_id from headrace.schedule s'
            ' join headrace.granted(%1$L) g (namespace) on g.namespace = s.namespace)' end, p_level)
$$;

-- The policies that guard the tables: one per table and command.
create or replace function headrace.wanted_policies() returns table (relation text, command text, definition text)
language sql immutable
as $$
    select g.relation, 'select', format('using (%s)', headrace.guard_condition(g.owned_by, g.read_level))
    from headrace.guarded() g
    union all
    select 'namespace_grant', 'select', 'using (pg_has_role(current_user, role, ''usage''))'
    union all
    -- Who is let at the outbox directly meets the same checks as one who calls headrace.publish.
    select g.relation, 'insert', format('with check (%s)', headrace.guard_condition(g.owned_by, g.insert_level)
        || case g.relation when 'outbox' then ' and headrace.event_within_limits(type, key, payload, headers, producer)'
            ' and headrace.time_within_limits(emitted_at)' else '' end)
    from headrace.guarded() g where g.insert_level is not null
    union all
    -- A topic's row may be locked by a consumer (to make a definite "latest"), changed by an admin only.
    select g.relation, 'update', format('using (%s) with check (%s)',
        headrace.guard_condition(g.owned_by, case g.relation when 'topic' then 'consume' else g.update_level end),
        headrace.guard_condition(g.owned_by, g.update_level))
    from headrace.guarded() g where g.update_level is not null
    union all
    select g.relation, 'delete', format('using (%s)', headrace.guard_condition(g.owned_by, g.delete_level))
    from headrace.guarded() g where g.delete_level is not null
$$;
