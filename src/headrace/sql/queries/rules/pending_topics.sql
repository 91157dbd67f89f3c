-- Topics with rules to compile, except those whose compilation has failed and pauses. Index: rule_version_pending.
select t.topic_id, t.namespace, t.topic
from headrace_internal.topic t
where t.topic_id in (select v.topic_id from headrace_internal.rule_version v where v.status = 'pending')
    and not exists (select from headrace_internal.failure f
        where f.kind = 'rule compilation' and f.namespace = t.namespace and f.name = t.topic and f.retry_at > headrace.clock())
order by t.topic_id;
