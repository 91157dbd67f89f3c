-- Was the last claim of a cursor rolled back, and has nobody recorded since what followed? p_claimed_by is the xmax of its row in
-- headrace_internal.claim, p_written_by the xmin of the cursor: whatever is recorded writes the cursor, in a later transaction. False
-- while the claim lasts, and for one so old that nobody knows any more. Locks nothing.
create or replace function headrace_internal.is_claim_lost(p_claimed_by xid, p_written_by xid) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_next bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    -- The newest transaction with these 32 bits.
    v_xid  bigint := v_next - ((v_next - p_claimed_by::text::bigint) & 4294967295);
begin
    return p_claimed_by <> 0 and v_xid between 3 and v_next - 1 and coalesce(pg_xact_status(v_xid::text::xid8) = 'aborted', false)
        and age(p_written_by) >= age(p_claimed_by);
end
$$;
