-- Correlators with versions to compile, except those whose compilation has failed and pauses. Index: correlator_version_pending.
select v.correlator_id, min(v.namespace) as namespace, min(v.correlator) as correlator
from headrace_internal.correlator_version v
where v.status = 'pending'
    and not exists (select from headrace_internal.failure f
        where f.kind = 'correlator compilation' and f.namespace = v.namespace and f.name = v.correlator
            and f.retry_at > headrace.clock())
group by v.correlator_id
order by v.correlator_id;
