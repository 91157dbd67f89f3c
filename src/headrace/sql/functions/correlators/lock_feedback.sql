-- One compiler at a time may activate a correlator of a namespace that publishes events, to the end of the transaction: two that each
-- activate one half of a loop would not see it. A loop leads through correlators of one namespace, so that others need not wait.
-- Locks: the row of the lock; unlike an advisory lock no other role can hold it.
create or replace function headrace_internal.lock_feedback(p_namespace text) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.take_lock('feedback ' || p_namespace);
end
$$;
