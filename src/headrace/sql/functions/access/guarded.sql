-- How every table of schema headrace is guarded: the column that leads to the row's namespace, and the level it takes to select,
-- insert, update and delete rows; null: nobody but the owner. A table that is not named here is closed. A test compares this with
-- the catalog.
create or replace function headrace_internal.guarded() returns table (relation text, owned_by text, command text, level text)
language sql immutable
as $$
    select g.relation, g.owned_by, l.command, l.level
    from (values
        ('namespace', 'namespace', 'any', null, null, null),
        ('topic', 'namespace', 'any', 'admin', null, null),
        ('outbox', 'topic', 'any', null, null, null),
        ('log', 'topic', 'consume', null, null, null),
        ('archive', 'topic', 'consume', null, null, null),
        ('consumer', 'topic', 'consume', null, null, null),
        ('cursor', 'consumer', 'consume', null, null, null),
        ('dead_letter', 'consumer', 'consume', null, null, null),
        ('capture', 'topic', 'publish', 'admin', 'admin', 'admin'),
        ('schedule', 'namespace', 'consume', 'admin', 'admin', 'admin'),
        ('schedule_due', 'schedule', 'consume', null, null, null),
        ('schedule_tick', 'schedule', 'consume', null, null, null),
        ('event_type', 'namespace', 'any', 'admin', 'admin', 'admin'),
        ('action', 'namespace', 'any', 'admin', 'admin', 'admin'),
        ('rule', 'namespace', 'consume', 'admin', 'admin', 'admin'),
        ('rule_version', 'namespace', 'consume', null, null, null),
        ('firing', 'topic', 'consume', null, null, null),
        ('correlator', 'namespace', 'consume', 'admin', 'admin', 'admin'),
        ('correlator_version', 'namespace', 'consume', null, null, null),
        ('correlator_table', 'correlator', 'consume', null, null, null),
        ('correlator_instance', 'correlator', 'consume', null, null, null),
        ('correlation', 'topic', 'consume', null, null, null),
        ('node', 'namespace', 'consume', null, null, null),
        ('action_result', 'namespace', 'consume', null, null, null),
        ('attempt', 'namespace', 'consume', null, null, null),
        ('spark_stage', 'namespace', 'publish', 'publish', null, 'publish'),
        ('pipeline', 'topic', 'consume', null, null, null),
        ('pipeline_batch', 'topic', 'consume', null, null, null)
    ) g (relation, owned_by, read_level, insert_level, update_level, delete_level)
    cross join lateral (values
        ('select', g.read_level), ('insert', g.insert_level), ('update', g.update_level), ('delete', g.delete_level)) l (command, level)
    where l.level is not null
$$;
