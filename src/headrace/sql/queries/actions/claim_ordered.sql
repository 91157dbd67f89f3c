-- Claims actions of one name, never claimed before, whose key has no earlier action in flight, delayed or waiting for a retry.
-- Several actions of a key may be claimed together: the worker handles them in order. Runs under actions/lock_order: two
-- concurrent claims would not see each other's rows and could claim a key's second action before its first.
-- Reads 2000 due actions, by due time: it never reads actions with a later due time, and never walks the whole tail of a key
-- that waits. An earlier action of the key that is not among them blocks the key.
-- `offset 0` makes the planner check them one by one, in order, until there are enough.
-- Locks: the rows. Indexes: q_<queue>_vt_idx (pgmq's own), q_<queue>_key_order.
with due as materialized (
    select q.ctid as place, q.msg_id, q.message ->> 'key' as key from {queue} q
    where q.read_ct = 0 and q.vt <= headrace.clock() and q.message ->> 'action' = %(action)s
    order by q.vt
    limit 2000),
claimed as (
    update {queue} c set read_ct = c.read_ct + 1, vt = headrace.clock() + make_interval(secs => %(lease_s)s)
    where c.ctid = any (array(
        select f.place from (select d.* from due d order by d.msg_id offset 0) f
        where not exists (
            select from {queue} e
            where e.message ->> 'action' = %(action)s and e.message ->> 'key' = f.key
                and e.msg_id < f.msg_id and e.ctid not in (select d.place from due d)
            offset 0)
        order by f.msg_id
        limit %(max)s))
    returning c.msg_id, c.read_ct, c.message)
select d.msg_id, d.read_ct, d.message::text from claimed d;
