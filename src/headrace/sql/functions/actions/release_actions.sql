-- Returns actions to the queue before their lease ends, due at once; returns how many were still held. With p_uncount the attempt
-- does not count, because the handler did not start. Locks: the rows. Index: q_<queue>_pkey.
create or replace function headrace.release_actions(
    p_msg_ids bigint[], p_attempts integer[], p_uncount boolean default false, p_namespace text default null,
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
        update pgmq.%I q set vt = headrace.clock(), read_ct = q.read_ct - case when $3 then 1 else 0 end
        from unnest($1, $2) h (msg_id, attempt)
        where q.msg_id = h.msg_id and q.read_ct = h.attempt
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace))
    using p_msg_ids, p_attempts, p_uncount;
    get diagnostics v_held = row_count;
    return v_held;
end
$$;
