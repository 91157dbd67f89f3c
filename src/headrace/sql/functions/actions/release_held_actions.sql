-- Makes actions due again that were held because their rule or their name was paused; returns how many. Those that another pause
-- holds stay. Locks: the rows. Index: q_<queue>_vt_idx.
create or replace function headrace_internal.release_held_actions(p_namespace text, p_rule text, p_action text) returns integer
language plpgsql volatile
as $$
declare
    v_count integer;
begin
    execute format($sql$
        update pgmq.%I q set vt = q.vt - make_interval(secs => headrace_internal.hold_s())
        where q.vt > headrace.clock() + interval '25 years'
            and ($2 is null or q.message -> 'cause' ->> 'kind' = 'rule' and q.message -> 'cause' ->> 'rule' = $2)
            and ($3 is null or q.message ->> 'action' = $3)
            and not exists (
                select from headrace_internal.pause p
                where p.namespace = $1 and (p.kind = 'action' and p.name = q.message ->> 'action'
                    or p.kind = 'rule' and q.message -> 'cause' ->> 'kind' = 'rule' and p.name = q.message -> 'cause' ->> 'rule'))
        $sql$, 'q_' || headrace_internal.queue_of(p_namespace)) using p_namespace, p_rule, p_action;
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
