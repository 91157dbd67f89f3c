-- Takes handled actions out of the queue and records them as done, in the handlers' own transaction.
-- The fence: each must still be at the attempt it was handed out with. Where one is not, its lease ended and another node may
-- have it: HR206 is raised, and with the transaction the handlers' effects are gone.
-- Locks: the rows. Index: q_<queue>_pkey.
create or replace function headrace.ack_actions(
    p_msg_ids     bigint[],
    p_attempts    integer[],
    p_durations_s real[],
    p_node_id     uuid default null,
    p_namespace   text default null
) returns void
language plpgsql volatile
as $$
declare
    v_namespace text := headrace.current_namespace(p_namespace);
    v_done      integer;
begin
    execute format($sql$
        with gone as (
            delete from pgmq.%I q
            using unnest($1, $2, $3) h (msg_id, attempt, duration_s)
            where q.msg_id = h.msg_id and q.read_ct = h.attempt
            returning q.message, h.attempt, h.duration_s)
        insert into headrace.action_result (ended_at, action_id, node_id, duration_s, attempts, namespace, action, outcome)
        select headrace.clock(), (g.message ->> 'id')::uuid, $4, g.duration_s, g.attempt, $5, g.message ->> 'action', 'done'
        from gone g
        $sql$, 'q_' || headrace.queue_name(v_namespace))
    using p_msg_ids, p_attempts, p_durations_s, p_node_id, v_namespace;
    get diagnostics v_done = row_count;
    if v_done < cardinality(p_msg_ids) then
        raise exception '% of % actions are no longer held: their lease ended before the handler did',
            cardinality(p_msg_ids) - v_done, cardinality(p_msg_ids)
            using errcode = 'HR206', hint = 'Another node may hold them now; raise lease_s or shorten the handler.';
    end if;
end
$$;

-- Makes leases longer while their handlers run; returns how many are still held. Passes over rows that are being acked right now.
-- Locks: the rows, skip locked. Index: q_<queue>_pkey.
create or replace function headrace.extend_actions(
    p_msg_ids bigint[], p_attempts integer[], p_lease_s double precision, p_namespace text default null
) returns integer
language plpgsql volatile
as $$
declare
    v_held integer;
begin
    execute format($sql$
        update pgmq.%1$I q set vt = headrace.clock() + make_interval(secs => $3)
        where q.ctid = any (array(
            select q.ctid from pgmq.%1$I q
            join unnest($1, $2) h (msg_id, attempt) on q.msg_id = h.msg_id and q.read_ct = h.attempt
            for update of q skip locked))
        $sql$, 'q_' || headrace.queue_name(p_namespace))
    using p_msg_ids, p_attempts, p_lease_s;
    get diagnostics v_held = row_count;
    return v_held;
end
$$;

-- Gives actions back before their lease ends, due at once; returns how many were still held. p_uncount: they were never begun,
-- so the attempt does not count. Locks: the rows. Index: q_<queue>_pkey.
create or replace function headrace.release_actions(
    p_msg_ids bigint[], p_attempts integer[], p_uncount boolean default false, p_namespace text default null
) returns integer
language plpgsql volatile
as $$
declare
    v_held integer;
begin
    execute format($sql$
        update pgmq.%I q set vt = headrace.clock(), read_ct = q.read_ct - case when $3 then 1 else 0 end
        from unnest($1, $2) h (msg_id, attempt)
        where q.msg_id = h.msg_id and q.read_ct = h.attempt
        $sql$, 'q_' || headrace.queue_name(p_namespace))
    using p_msg_ids, p_attempts, p_uncount;
    get diagnostics v_held = row_count;
    return v_held;
end
$$;
