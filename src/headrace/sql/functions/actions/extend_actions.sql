-- Extends leases while their handlers run; returns how many are still held. Skips rows that are being acked.
-- Locks: the rows, skip locked. Index: q_<queue>_pkey.
create or replace function headrace.extend_actions(
    p_msg_ids bigint[], p_attempts integer[], p_lease_s double precision, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_held      integer;
begin
    execute format($sql$
        update pgmq.%1$I q set vt = headrace.clock() + make_interval(secs => $3)
        where q.ctid = any (array(
            select q.ctid from pgmq.%1$I q
            join unnest($1, $2) h (msg_id, attempt) on q.msg_id = h.msg_id and q.read_ct = h.attempt
            for update of q skip locked))
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace))
    using p_msg_ids, p_attempts, p_lease_s;
    get diagnostics v_held = row_count;
    return v_held;
end
$$;
