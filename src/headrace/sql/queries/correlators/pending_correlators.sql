-- Correlators with versions to compile, and those that kept their consumer because a transaction was open when they were
-- deactivated; except those whose compilation has failed and pauses. Index: correlator_version_pending.
select k.correlator_id, k.namespace, k.correlator
from (
    select v.correlator_id, min(v.namespace) as namespace, min(v.correlator) as correlator
    from headrace_internal.correlator_version v where v.status = 'pending' group by v.correlator_id
    union
    select k.correlator_id, k.namespace, k.correlator
    from headrace_internal.correlator k
    join headrace_internal.consumer c on c.topic_id = k.topic_id and c.consumer = 'headrace.correlator.' || k.correlator
    where not k.active
) k
where not exists (select from headrace_internal.failure f
    where f.kind = 'correlator compilation' and f.namespace = k.namespace and f.name = k.correlator and f.retry_at > headrace.clock())
order by k.correlator_id;
