-- The settings and the clock of the server that headrace depends on.
select current_setting('server_version_num')::integer as version_num,
    current_setting('server_version') as version,
    current_setting('fsync') as fsync,
    current_setting('full_page_writes') as full_page_writes,
    current_setting('synchronous_commit') as synchronous_commit,
    extract(epoch from clock_timestamp())::double precision as clock_s,
    nullif(current_setting('headrace.clock_shift', true), '') as clock_shift,
    current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer as connections_max,
    (select count(*) from pg_stat_activity a where a.backend_type = 'client backend') as connections,
    pg_notification_queue_usage() as notifications,
    -- Locks by the fast path take no place in the table.
    (select count(*) from pg_locks l where not l.fastpath) as locks,
    current_setting('max_locks_per_transaction')::integer
        * (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer) as locks_max;
