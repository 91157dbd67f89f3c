-- A topic's versions to compile, oldest first. Index: rule_version_pending.
select v.version_id, v.condition, v.dropped
from headrace_internal.rule_version v
where v.topic_id = %(topic_id)s and v.status = 'pending'
order by v.version_id
limit %(limit)s;
