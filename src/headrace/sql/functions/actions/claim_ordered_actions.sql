-- Claims actions of one name, never claimed before, whose key has no earlier action in flight, delayed or waiting for a retry.
-- Several actions of a key may be claimed together: the worker handles them in order. One claim at a time, until its
-- transaction ends: two concurrent ones would not see each other's rows and could claim a key's second action before its first.
-- Reads 2000 due actions, by due time: it never reads actions with a later due time, and never walks the whole tail of a key
-- that waits. An earlier action of the key that is not among them blocks the key. Only if all of them are blocked, and more are due,
-- it reads ten times as many, and so on: otherwise nothing would be claimed until the blocking actions are due.
-- `offset 0` makes the planner check them one by one, in order, until there are enough.
-- Locks: the lock of the action's name; the rows. Indexes: q_<queue>_vt_idx (pgmq's own), q_<queue>_key_order.
create or replace function headrace.claim_ordered_actions(
    p_action    text,
    p_max       integer,
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
-- The places of many due actions fit into a hash table.
set work_mem = '64MB'
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_queue     text := 'q_' || headrace_internal.queue_of(v_namespace);
    v_read      integer := 2000;
    v_claimed   integer;
    v_has_more  boolean;
begin
    if headrace_internal.unpaused_actions(v_namespace, array[p_action]) = '{}' then
        return;
    end if;
    perform headrace_internal.take_lock(format('actions %s %s', v_namespace, p_action));
    loop
        return query execute format($sql$
            with due as materialized (
                select q.ctid as place, q.msg_id, q.message ->> 'key' as key from pgmq.%1$I q
                where q.read_ct = 0 and q.vt <= headrace.clock() and q.message ->> 'action' = $1
                order by q.vt
                limit $4),
            claimed as (
                update pgmq.%1$I c set read_ct = c.read_ct + 1, vt = headrace.clock() + make_interval(secs => $3)
                where c.ctid = any (array(
                    select f.place from (select d.* from due d order by d.msg_id offset 0) f
                    where not exists (
                        select from pgmq.%1$I e
                        where e.message ->> 'action' = $1 and e.message ->> 'key' = f.key
                            and e.msg_id < f.msg_id and e.ctid not in (select d.place from due d)
                        offset 0)
                    order by f.msg_id
                    limit $2))
                returning c.msg_id, c.read_ct, c.message)
            select d.msg_id, d.read_ct, d.message::text from claimed d
            $sql$, v_queue)
        using p_action, p_max, p_lease_s, v_read;
        get diagnostics v_claimed = row_count;
        exit when v_claimed > 0 or v_read >= 20000000;
        execute format('select exists (select from pgmq.%I q where q.read_ct = 0 and q.vt <= headrace.clock() '
            'and q.message ->> ''action'' = $1 order by q.vt offset $2)', v_queue) into v_has_more using p_action, v_read;
        exit when not v_has_more;
        v_read := v_read * 10;
    end loop;
end
$$;
