-- Deletes the recorded failures of rules that have a new version. Indexes: rule_version_pending, failure_pkey.
delete from headrace_internal.failure f using headrace_internal.rule_version v
where v.topic_id = %(topic_id)s and v.status = 'pending' and f.kind = 'rule' and f.namespace = v.namespace and f.name = v.rule;
