-- Why an event may be stuck: failures of the sequencer (without a position) or of the rules and correlators of its topic.
-- Indexes: failure_pkey, cursor_pkey.
select f.kind || ' ' || f.name as what, f.error, f.failures, f.retry_at
from headrace.failure f
where f.namespace = %(namespace)s and case when %(position)s::bigint is null then f.kind = 'sequence' and f.name = %(topic)s
    else (f.kind in ('rules', 'rule compilation') and f.name = %(topic)s)
        or (f.kind in ('correlator', 'correlator compilation')
            and f.name in (select c.correlator from headrace.correlator c where c.namespace = f.namespace and c.topic = %(topic)s))
        or (f.kind = 'rule' and f.name in (select r.rule from headrace.rule r where r.namespace = f.namespace and r.topic = %(topic)s)) end
union all
select 'consumer ' || c.consumer, u.error, u.attempts, u.retry_at
from headrace.consumer c
join headrace.cursor u on u.consumer_id = c.consumer_id
where c.topic_id = %(topic_id)s and u.error is not null and u.position < %(position)s::bigint
    and (u.partition = -1 or u.partition = %(partition)s)
order by 1;
