-- Deletes unique keys whose period is over and whose action has left the queue; returns how many, at most 10000 per namespace.
-- Locks: the rows, skip locked: a sender holds them. Indexes: unique_action_until, q_<queue>_pkey.
create or replace function headrace_internal.trim_unique_actions() returns integer
language plpgsql volatile
as $$
declare
    v_namespace text;
    v_piece     integer;
    v_trimmed   integer := 0;
begin
    for v_namespace in select distinct u.namespace from headrace_internal.unique_action u where u.unique_until <= headrace.clock() loop
        execute format($sql$
            delete from headrace_internal.unique_action u where u.ctid = any (array(
                select o.ctid from headrace_internal.unique_action o
                where o.unique_until <= headrace.clock() and o.namespace = $1
                    and not exists (select from pgmq.%I q where q.msg_id = o.msg_id)
                order by o.unique_until limit 10000 for update skip locked))
            $sql$, 'q_' || headrace_internal.queue_of(v_namespace)) using v_namespace;
        get diagnostics v_piece = row_count;
        v_trimmed := v_trimmed + v_piece;
    end loop;
    return v_trimmed;
end
$$;
