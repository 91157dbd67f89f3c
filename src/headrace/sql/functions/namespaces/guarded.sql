-- How every table is guarded: whose rows they are (the column that leads to the namespace), and the level it takes to read
-- and to write them; null: nobody but the owner. A table that is not named here is closed. A test compares this with the catalog.
create or replace function headrace_internal.guarded()
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
