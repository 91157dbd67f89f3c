-- The number of actions in a namespace's queue by state, and the age of the oldest due one. Index: q_<queue>_vt_idx.
create or replace function headrace.queue_state(
    p_namespace text default null, p_caller headrace_internal.caller default current_user
)
returns table (due bigint, in_flight bigint, delayed bigint, dead bigint, oldest_due_s double precision)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
begin
    return query execute format($sql$
        select count(*) filter (where q.vt <= headrace.clock()),
            count(*) filter (where q.vt > headrace.clock() and q.read_ct > 0),
            count(*) filter (where q.vt > headrace.clock() and q.read_ct = 0),
            (select count(*) from pgmq.%I),
            coalesce(extract(epoch from headrace.clock() - min(q.vt) filter (where q.vt <= headrace.clock())), 0)::double precision
        from pgmq.%I q
        $sql$, 'q_' || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)), 'q_' || headrace_internal.queue_of(v_namespace));
end
$$;
