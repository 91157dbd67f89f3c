-- Claims one action that was claimed before and is due again, the one that has waited longest. It is handled alone, so that an
-- action that kills its process does not use up the attempts of others. Ordered actions: only the first one of its key.
-- Locks: the row, skip locked. Indexes: q_<queue>_retried, q_<queue>_key_order.
create or replace function headrace.claim_retried_action(
    p_actions   text[],
    p_ordered   boolean,
    p_lease_s   double precision,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns table (msg_id bigint, read_ct integer, message text)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
-- A sort that cannot be avoided has such a high cost that the statement would be JIT-compiled.
set jit = off
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
begin
    p_actions := headrace_internal.unpaused_actions(v_namespace, p_actions);
    if p_actions = '{}' then
        return;
    end if;
    return query execute format($sql$
        update pgmq.%1$I c set read_ct = least(c.read_ct, 2147483646) + 1, vt = headrace.clock() + make_interval(secs => $3)
        where c.ctid = any (array(
            select q.ctid from pgmq.%1$I q
            where q.read_ct > 0 and q.vt <= headrace.clock() and q.message ->> 'action' = any ($1)
                and (not $2 or not exists (
                    select from pgmq.%1$I e
                    where e.message ->> 'action' = q.message ->> 'action' and e.message ->> 'key' = q.message ->> 'key'
                        and e.msg_id < q.msg_id))
            order by q.vt
            limit 1
            for update of q skip locked))
        returning c.msg_id, c.read_ct, c.message::text
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace))
    using p_actions, p_ordered, p_lease_s;
end
$$;
