-- The number of actions in a namespace's queue by state, the age of the oldest due one, and whether the queue is paused. 'retrying':
-- a failed action that waits for its next attempt; 'held': by the pause of its rule or of its name. 'dead': counted up to
-- 100 000, then as the table's statistics say. Index: attempt_action.
create or replace function headrace.queue_state(
    p_namespace text default null, p_caller headrace_internal.caller default current_user
)
returns table (
    due bigint, in_flight bigint, delayed bigint, dead bigint, oldest_due_s double precision, retrying bigint, held bigint, paused boolean)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
begin
    return query execute format($sql$
        select count(*) filter (where s.state = 'due'), count(*) filter (where s.state = 'in-flight'),
            count(*) filter (where s.state = 'delayed'),
            (select case when count(*) < 100000 then count(*) else greatest(count(*), pg_stat_get_live_tuples($2)) end
            from (select from pgmq.%I limit 100000) d),
            coalesce(extract(epoch from headrace.clock() - min(q.vt) filter (where s.state = 'due')), 0)::double precision,
            count(*) filter (where s.state = 'retrying'), count(*) filter (where s.state = 'held'),
            exists (select from headrace_internal.pause p where p.namespace = $1 and p.kind = 'queue')
        from pgmq.%I q
        cross join lateral (
            -- Most rows are decided here; the function is for those that were claimed.
            select case when q.vt <= headrace.clock() then 'due'
                when q.vt > headrace.clock() + interval '25 years' then 'held'
                when q.read_ct = 0 then 'delayed'
                else headrace_internal.action_state($1, q.vt, q.read_ct, q.message ->> 'id') end) s (state)
        $sql$, 'q_' || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)),
        'q_' || headrace_internal.queue_of(v_namespace))
    using v_namespace, format('pgmq.%I', 'q_' || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)))::regclass;
end
$$;
