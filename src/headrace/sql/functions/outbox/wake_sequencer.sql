-- Tells the sleeping sequencers at commit that there is work; at most one transaction in ten milliseconds does.
-- A NOTIFY makes commits of the whole cluster wait for each other. Where no sequencer runs, nobody wakes up, and without this
-- limit every publisher would send one. Whoever is left out here is found with the one that rings, or by the look every second.
-- Locks: an advisory lock of this moment, until the end of the transaction, never waited for.
create or replace function headrace_internal.wake_sequencer() returns boolean
language plpgsql volatile
as $$
begin
    if pg_try_advisory_xact_lock(
        hashtext('headrace_outbox'), (date_part('epoch', clock_timestamp()) * 100)::bigint::bit(32)::integer) then
        perform pg_notify('headrace_outbox', '');
    end if;
    return true;
end
$$;
