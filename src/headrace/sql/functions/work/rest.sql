-- An idle node wants to be called (p_asleep), a woken one no longer does. Writes only when that changes.
-- Locks: the queue's row, skip locked: another node is changing it to the same end.
create or replace function headrace.rest_queue(p_asleep boolean, p_namespace text default null) returns void
language sql volatile
as $$
    update headrace.queue q set asleep = p_asleep
    where q.namespace = (
        select r.namespace from headrace.queue r
        where r.namespace = headrace.current_namespace(p_namespace) and r.asleep <> p_asleep
        for no key update skip locked)
$$;

-- How full a namespace's queue is. Index: q_<queue>_vt_idx.
create or replace function headrace.queue_state(p_namespace text default null)
returns table (due bigint, in_flight bigint, delayed bigint, dead bigint, oldest_due_s double precision)
language plpgsql stable
as $$
begin
    return query execute format($sql$
        select count(*) filter (where q.vt <= headrace.clock()),
            count(*) filter (where q.vt > headrace.clock() and q.read_ct > 0),
            count(*) filter (where q.vt > headrace.clock() and q.read_ct = 0),
            (select count(*) from pgmq.%I),
            coalesce(extract(epoch from headrace.clock() - min(q.vt) filter (where q.vt <= headrace.clock())), 0)::double precision
        from pgmq.%I q
        $sql$, 'q_' || headrace.queue_name(p_namespace) || '_dlq', 'q_' || headrace.queue_name(p_namespace));
end
$$;

-- Forgets results and failed attempts older than p_keep, the oldest first, in pieces of p_piece rows, and ends after the first piece
-- that is over p_most: what is left waits for the next call. Returns how many rows.
-- Locks: the rows, skip locked: another node forgets them. Indexes: action_result_age, attempt_age, whatever the statistics say.
create or replace function headrace.trim_results(
    p_keep  interval default '30 days',
    p_piece integer default 10000,
    p_most  interval default '1 second'
) returns integer
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_before  timestamptz := headrace.clock() - p_keep;
    -- The time that passes: headrace.clock() stands still within a call.
    v_end     timestamptz := clock_timestamp() + p_most;
    v_results integer;
    v_piece   integer;
    v_trimmed integer := 0;
begin
    loop
        delete from headrace.action_result r where r.ctid = any (array(
            select o.ctid from headrace.action_result o
            where o.ended_at < v_before order by o.ended_at limit p_piece for update skip locked));
        get diagnostics v_results = row_count;
        delete from headrace.attempt a where a.ctid = any (array(
            select o.ctid from headrace.attempt o
            where o.failed_at < v_before order by o.failed_at limit p_piece for update skip locked));
        get diagnostics v_piece = row_count;
        v_trimmed := v_trimmed + v_results + v_piece;
        exit when greatest(v_results, v_piece) < p_piece or clock_timestamp() > v_end;
    end loop;
    return v_trimmed;
end
$$;
