-- True if the whole log has few enough tables that a plan over all of them is cheap to make and to lock. About 20 topics of monthly partitions.
-- Then a statement over headrace_internal.log is planned once per session: 10 µs a read. Otherwise the plan would lock the tables of
-- all topics, up to the end of the server's lock table, and a read names the topic's own branch and is planned each time: 80 µs.
-- The catalog's size stands for the number: about 50 bytes for each table and index of the log.
create or replace function headrace_internal.log_is_small() returns boolean
language sql stable
as $$
    select pg_relation_size('pg_catalog.pg_inherits'::regclass) <= 16384
$$;
