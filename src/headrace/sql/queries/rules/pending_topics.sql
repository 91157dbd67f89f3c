-- Topics with rules to compile, and topics that kept their consumer without rules because a transaction was open when the last rule
-- went; except those whose compilation has failed and pauses. Indexes: rule_version_pending, rule_topic.
select t.topic_id, t.namespace, t.topic
from headrace_internal.topic t
where t.topic_id in (
        select v.topic_id from headrace_internal.rule_version v where v.status = 'pending'
        union
        select c.topic_id from headrace_internal.consumer c
        -- Not "not exists": as a join it would read all rules.
        where c.consumer = 'headrace.rules'
            and (select r.rule_id from headrace_internal.rule r where r.topic_id = c.topic_id limit 1) is null)
    and not exists (select from headrace_internal.failure f
        where f.kind = 'rule compilation' and f.namespace = t.namespace and f.name = t.topic and f.retry_at > headrace.clock())
order by t.topic_id;
