-- Claims one action that was claimed before and is due again, the one that has waited longest. It is handled alone, so that an
-- action that kills its process does not use up the attempts of others. Ordered actions: only the first one of its key.
-- Locks: the row, skip locked. Indexes: q_<queue>_retried, q_<queue>_key_order.
update {queue} c set read_ct = least(c.read_ct, 2147483646) + 1, vt = headrace.clock() + make_interval(secs => %(lease_s)s)
where c.ctid = any (array(
    select q.ctid from {queue} q
    where q.read_ct > 0 and q.vt <= headrace.clock() and q.message ->> 'action' = any (%(actions)s::text[])
        and (not %(ordered)s or not exists (
            select from {queue} e
            where e.message ->> 'action' = q.message ->> 'action' and e.message ->> 'key' = q.message ->> 'key'
                and e.msg_id < q.msg_id))
    order by q.vt
    limit 1
    for update of q skip locked))
returning c.msg_id, c.read_ct, c.message::text;
