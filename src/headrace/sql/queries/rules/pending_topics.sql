-- Topics with rules to compile, and topics that kept their consumer without rules because a transaction was open when the last rule
-- went. Indexes: rule_version_pending, rule_topic.
select v.topic_id from headrace_internal.rule_version v where v.status = 'pending'
union
select c.topic_id from headrace_internal.consumer c
where c.consumer = 'headrace.rules'
    and not exists (select from headrace_internal.rule r where r.topic_id = c.topic_id)
order by topic_id;
