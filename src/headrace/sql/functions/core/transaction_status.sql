-- What became of the transaction in a system column of a row: of xmin, which wrote it, or of xmax, which locked it last. 'committed',
-- 'aborted' or 'in progress'; null for 0, and for one so old that nobody knows. Locks nothing.
create or replace function headrace_internal.transaction_status(p_xid xid) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_next bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    -- The newest transaction with these 32 bits.
    v_xid  bigint := v_next - ((v_next - p_xid::text::bigint) & 4294967295);
begin
    return case when p_xid <> 0 and v_xid between 3 and v_next - 1 then pg_xact_status(v_xid::text::xid8) end;
end
$$;
