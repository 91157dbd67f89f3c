-- The consumers that run a topic's rules and correlators. ready: it is due, and its active version is not about to change.
-- erasures: changes with every erasure, which takes data out of events and states without moving a cursor.
-- The version of all rules together is the newest compiled one. mark: changes with every move of the cursor.
-- Indexes: erasure_pkey, consumer_name_unique, cursor_pkey, rule_version_pending, correlator_version_pending.
select c.consumer_id, t.correlator_id, coalesce(t.version_id, r.version_id) as version_id, u.position, u.single_to, u.xmin::text as mark,
    coalesce(t.simple, false) as simple, (select coalesce(max(e.erasure_id), 0) from headrace_internal.erasure e) as erasures,
    u.state = 'running' and (u.retry_at is null or u.retry_at <= headrace.clock()) and not coalesce(t.halted, false)
        and not exists (select from headrace_internal.pause p where p.consumer_id = c.consumer_id)
        and not exists (
            select from headrace_internal.rule_version v
            where t.correlator_id is null and v.topic_id = c.topic_id and v.status = 'pending')
        and not exists (
            select from headrace_internal.correlator_version v where v.correlator_id = t.correlator_id and v.status = 'pending') as ready
from headrace_internal.consumer c
join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
left join headrace_internal.correlator_table t on t.consumer_id = c.consumer_id
left join lateral (
    select coalesce(max(v.version_id), 0) as version_id
    from headrace_internal.rule_version v where v.topic_id = c.topic_id and v.status <> 'pending'
) r on c.consumer = 'headrace.rules'
where c.topic_id = %(topic_id)s and (c.consumer = 'headrace.rules' or t.correlator_id is not null)
order by c.consumer_id;
