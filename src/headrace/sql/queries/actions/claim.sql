-- Claims due actions of the given names that were never claimed before: high priorities first, then ordinary ones, then low ones.
-- The branches are lazy: later ones are not read while the first ones give enough rows.
-- Ordinary actions come in two parts. First those after a message id, by age, so that a busy worker does not walk again over what
-- it has just claimed. Then those up to it, by due time, so that actions with a later due time are never read.
-- Rows are selected by ctid and locked in the same statement.
-- Locks: the rows, skip locked. Indexes: q_<queue>_priority, q_<queue>_pkey, q_<queue>_vt_idx (pgmq's own). Runs on a connection
-- that avoids sorts and sequential scans: a sort would lock the whole queue and so hide it from other workers.
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
