-- Tells the sleeping sequencers at commit that there is work.
create or replace function headrace.wake_sequencer() returns boolean
language plpgsql volatile
as $$
begin
    perform pg_notify('headrace_outbox', '');
    return true;
end
$$;
