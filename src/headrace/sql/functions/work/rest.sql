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

-- Forgets results and failed attempts older than p_keep; returns how many rows. Indexes: action_result_age, attempt_age.
create or replace function headrace.trim_results(p_keep interval default '30 days') returns integer
language plpgsql volatile
as $$
declare
    v_results  integer;
    v_attempts integer;
begin
    delete from headrace.action_result r where r.ended_at < headrace.clock() - p_keep;
    get diagnostics v_results = row_count;
    delete from headrace.attempt a where a.failed_at < headrace.clock() - p_keep;
    get diagnostics v_attempts = row_count;
    return v_results + v_attempts;
end
$$;
