-- One compiler at a time may activate a correlator that publishes events, to the end of the transaction: two that each activate one
-- half of a loop would not see it. Locks: correlator_table, share update exclusive; unlike an advisory lock no other role can hold it.
create or replace function headrace_internal.lock_feedback() returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    lock table headrace_internal.correlator_table in share update exclusive mode;
end
$$;
