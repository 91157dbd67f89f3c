-- Locks a table of a topic's log until the end of the transaction, access exclusive. Waits at most 10 ms: whoever reads the table delays
-- only that topic, and the sequencer serves those of other namespaces in the same transaction.
create or replace function headrace_internal.lock_briefly(p_table regclass) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '10ms'
as $$
begin
    execute format('lock table %s in access exclusive mode', p_table);
end
$$;
