-- Was this transaction rolled back? p_xid is the system column xmax of a row: the transaction that locked it last. False for 0, for one
-- that still runs, and for one so old that nobody knows. Locks nothing.
create or replace function headrace_internal.was_aborted(p_xid xid) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_next bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    -- The newest transaction with these 32 bits.
    v_xid  bigint := v_next - ((v_next - p_xid::text::bigint) & 4294967295);
begin
    return p_xid <> 0 and v_xid between 3 and v_next - 1 and coalesce(pg_xact_status(v_xid::text::xid8) = 'aborted', false);
end
$$;
