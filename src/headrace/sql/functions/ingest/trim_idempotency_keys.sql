-- Deletes idempotency keys older than p_keep, oldest first, at most p_most rows; the next call continues. Returns the number of rows.
-- The maintenance of nodes calls it. Locks: the rows, skip locked. Index: idempotency_key_age.
create or replace function headrace_internal.trim_idempotency_keys(p_keep interval default '1 day', p_most integer default 50000)
returns integer
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_trimmed integer;
begin
    delete from headrace_internal.idempotency_key k where k.ctid = any (array(
        select o.ctid from headrace_internal.idempotency_key o
        where o.created_at < headrace.clock() - p_keep order by o.created_at limit p_most for update skip locked));
    get diagnostics v_trimmed = row_count;
    return v_trimmed;
end
$$;
