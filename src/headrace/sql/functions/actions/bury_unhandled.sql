-- Buries actions that have been due for p_grace_s and that no node handles which was alive within 90 seconds (a node that has just
-- stopped counts: it may be restarting). Paused actions are held instead. Returns how many. Checks the 10000 oldest.
-- Locks: the rows, skip locked. Index: q_<queue>_pkey.
create or replace function headrace.bury_unhandled(
    p_grace_s double precision default 300, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_known     text[];
    v_row       record;
    v_buried    integer := 0;
begin
    if exists (select from headrace_internal.pause p where p.namespace = v_namespace and p.kind = 'queue') then
        return 0;
    end if;
    perform headrace_internal.hold_paused_actions(v_namespace);
    select coalesce(array_agg(distinct h.action), '{}') into v_known
    from (
        select h.action from headrace_internal.node n cross join unnest(n.handlers) h (action)
        where n.namespace = v_namespace and n.heartbeat_at > headrace.clock() - interval '90 seconds'
        union all
        select p.name from headrace_internal.pause p where p.namespace = v_namespace and p.kind = 'action') h;
    for v_row in execute format($sql$
        select d.action, array_agg(d.msg_id) as msg_ids
        from (
            select q.msg_id, q.message ->> 'action' as action from pgmq.%I q
            where q.vt <= headrace.clock() - make_interval(secs => $1)
            order by q.msg_id limit 10000
            for update skip locked) d
        where d.action is null or d.action <> all ($2)
        group by d.action
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace)) using p_grace_s, v_known
    loop
        v_buried := v_buried + headrace.bury_actions(v_row.msg_ids, case when v_row.action is null then 'unreadable' else 'no_handler' end,
            coalesce(format('no node of namespace %s handles action %s; run a node with a handler for it, then redrive; or correct the name where it is sent',
                v_namespace, v_row.action), 'the message is not an action'),
            p_namespace => v_namespace);
    end loop;
    return v_buried;
end
$$;
