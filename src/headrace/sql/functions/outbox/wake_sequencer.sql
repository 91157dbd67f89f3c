-- Notifies the sleeping sequencers at commit that there is work; at most one transaction per ten milliseconds does so.
-- A NOTIFY makes the commits of the whole cluster wait for each other. Where no sequencer runs, topics stay asleep, and without
-- this limit every publisher would send one. The sequencer finds the other events together with the one that notified, or when it
-- looks once a second.
-- Where transactions may be prepared it does not notify at all, see headrace_internal.may_notify: the sequencer polls there.
-- Locks: an advisory lock for this moment, until the end of the transaction; it never waits for it. Whoever
-- holds these locks delays a sleeping sequencer by a second at most.
create or replace function headrace_internal.wake_sequencer() returns boolean
language plpgsql volatile
as $$
begin
    if headrace_internal.may_notify() and pg_catalog.pg_try_advisory_xact_lock(
        pg_catalog.hashtext('headrace_outbox'), (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 100::double precision)::bigint::bit(32)::integer) then
        perform pg_catalog.pg_notify('headrace_outbox', '');
    end if;
    return true;
end
$$;
