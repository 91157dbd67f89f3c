-- Takes a lock of headrace until the end of the transaction; waits for it. Locks: the lock's row.
create or replace function headrace_internal.take_lock(p_name text) returns void
language plpgsql volatile
as $$
begin
    insert into headrace_internal.lock (name) values (p_name) on conflict on constraint lock_pkey do nothing;
    perform from headrace_internal.lock l where l.name = p_name for update;
end
$$;
