-- Raises HR208 unless the transaction is READ COMMITTED. For functions that decide under a lock: above that level a statement reads
-- by the snapshot of the transaction, which may be older than the lock, and the decision would ignore what was committed between.
create or replace function headrace_internal.require_read_committed(p_function text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
        raise exception '% needs a transaction at READ COMMITTED; this one is at %', p_function, upper(current_setting('transaction_isolation'))
            using errcode = 'HR208', hint = 'Begin it with: begin isolation level read committed.';
    end if;
end
$$;
