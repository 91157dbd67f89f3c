-- Holds due actions whose name is paused, so that claims do not walk over them; headrace.resume makes them due again. Examines the
-- 10000 that have been due for longest. By ctid: a row claimed meanwhile has a new ctid and is skipped. Locks: the pauses, for share: a resume waits for us, and then
-- finds what we hold. Indexes: pause_pkey, q_<queue>_vt_idx.
create or replace function headrace_internal.hold_paused_actions(p_namespace text) returns void
language plpgsql volatile
-- Otherwise the planner may compare every row of the queue with every ctid.
set enable_seqscan = off
set jit = off
as $$
declare
    v_paused text[];
begin
    select array_agg(p.name) into v_paused
    from (
        select p.name from headrace_internal.pause p
        where p.namespace = p_namespace and p.kind = 'action' order by p.name for share) p;
    if v_paused is null then
        return;
    end if;
    execute format($sql$
        update pgmq.%1$I c set vt = c.vt + make_interval(secs => headrace_internal.hold_s())
        where c.ctid = any (array(
            select d.place from (
                select q.ctid as place, q.message ->> 'action' as action from pgmq.%1$I q
                where q.vt <= headrace.clock()
                order by q.vt limit 10000) d
            where d.action = any ($1)))
        $sql$, 'q_' || headrace_internal.queue_of(p_namespace)) using v_paused;
end
$$;
