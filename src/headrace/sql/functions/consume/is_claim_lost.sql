-- Was the last claim of a cursor rolled back, and has nobody recorded since what followed? p_claimed_by is the xmax of its row in
-- headrace_internal.claim, p_written_by the xmin of the cursor: whatever is recorded writes the cursor, in a later transaction. False
-- while the claim lasts, and for one so old that nobody knows any more. Locks nothing.
create or replace function headrace_internal.is_claim_lost(p_claimed_by xid, p_written_by xid) returns boolean
language sql stable
as $$
    select coalesce(headrace_internal.transaction_status(p_claimed_by) = 'aborted' and age(p_written_by) >= age(p_claimed_by), false)
$$;
