-- Deletes results and failed attempts older than p_keep, oldest first, in pieces of p_piece rows. Stops after the first piece that
-- ends later than p_most; the next call continues. Also deletes unique keys that nothing holds. Returns the number of rows.
-- Locks: the rows, skip locked: another node deletes them. Indexes: action_result_age, attempt_age, whatever the statistics say.
create or replace function headrace_internal.trim_results(
    p_keep  interval default '30 days',
    p_piece integer default 10000,
    p_most  interval default '1 second'
) returns integer
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_before  timestamptz := headrace.clock() - p_keep;
    -- Real time: headrace.clock() does not move within a call.
    v_end     timestamptz := clock_timestamp() + p_most;
    v_results integer;
    v_piece   integer;
    v_trimmed integer := 0;
begin
    loop
        delete from headrace_internal.action_result r where r.ctid = any (array(
            select o.ctid from headrace_internal.action_result o
            where o.ended_at < v_before order by o.ended_at limit p_piece for update skip locked));
        get diagnostics v_results = row_count;
        delete from headrace_internal.attempt a where a.ctid = any (array(
            select o.ctid from headrace_internal.attempt o
            where o.failed_at < v_before order by o.failed_at limit p_piece for update skip locked));
        get diagnostics v_piece = row_count;
        v_trimmed := v_trimmed + v_results + v_piece;
        exit when greatest(v_results, v_piece) < p_piece or clock_timestamp() > v_end;
    end loop;
    return v_trimmed + headrace_internal.trim_unique_actions();
end
$$;
