-- Claims due actions never handed out before, of the names given: high priorities first, then the ordinary ones, then low ones.
-- The branches are lazy: the later ones are not looked at while the first have enough.
-- Ordinary ones come in two parts. Those after a message id, by age: a worker that is busy need not walk over what it has just
-- claimed. Then those up to it, in the order they fell due: however many wait for a later time, none of them is looked at.
-- Rows are found by their place (ctid) and locked in the same statement.
-- Locks: the rows, skip locked. Indexes: q_<queue>_priority, q_<queue>_pkey, q_<queue>_vt_idx (pgmq's own). Runs on a connection
-- that sorts and scans only when it must: a sort would lock, and so hide from others, the whole queue.
with claimed as (
    update {queue} c set read_ct = c.read_ct + 1, vt = headrace.clock() + make_interval(secs => %(lease_s)s)
    where c.ctid = any (array(
        select place from (
            select q.ctid as place from {queue} q
            where jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0' and q.message -> 'priority' > '0'
                and q.read_ct = 0 and q.vt <= headrace.clock() and q.message ->> 'action' = any (%(actions)s::text[])
            order by q.message -> 'priority' desc, q.msg_id
            for update skip locked) high
        union all
        select place from (
            select q.ctid as place from {queue} q
            where q.msg_id > %(after)s
                and (jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0') is not true
                and q.read_ct = 0 and q.vt <= headrace.clock() and q.message ->> 'action' = any (%(actions)s::text[])
            order by q.msg_id
            for update skip locked) younger
        union all
        select place from (
            select q.ctid as place from {queue} q
            where q.msg_id <= %(after)s
                and (jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0') is not true
                and q.read_ct = 0 and q.vt <= headrace.clock() and q.message ->> 'action' = any (%(actions)s::text[])
            order by q.vt
            for update skip locked) older
        union all
        select place from (
            select q.ctid as place from {queue} q
            where jsonb_typeof(q.message -> 'priority') = 'number' and q.message -> 'priority' <> '0' and q.message -> 'priority' < '0'
                and q.read_ct = 0 and q.vt <= headrace.clock() and q.message ->> 'action' = any (%(actions)s::text[])
            order by q.message -> 'priority' desc, q.msg_id
            for update skip locked) low
        limit %(max)s))
    returning c.msg_id, c.read_ct, c.message)
select d.msg_id, d.read_ct, d.message::text from claimed d;
