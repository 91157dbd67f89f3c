-- Claims actions of one name, never handed out before, whose key has none before them in flight, delayed or to be tried again.
-- A key's actions may come together: the worker handles them in order. Under queries/work/lock_order: two claims side by
-- side would not see each other's rows, and could take a key's second action before its first.
-- Looks at 2000 that are due, in the order they fell due: however many wait for a later time, none of them is looked at, and
-- behind a key that waits with a long tail it does not walk over all of it. Whatever of a key is not among these is in the way.
-- `offset 0` has them judged one by one, in order, until there are enough.
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
