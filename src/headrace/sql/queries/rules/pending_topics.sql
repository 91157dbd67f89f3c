-- Topics with rules to compile. Index: rule_version_pending.
select distinct v.topic_id from headrace_internal.rule_version v where v.status = 'pending' order by v.topic_id;
