-- A correlator's versions to compile, oldest first. Index: correlator_version_pending.
select v.version_id, v.namespace, v.correlator, t.topic, v.topic_id, v.key, v.pattern, v.outputs, v.active, v.allow_feedback, v.restart,
    v.dropped, n.unknown_names, v.forget_after is not null as forgets
from headrace_internal.correlator_version v
join headrace_internal.topic t on t.topic_id = v.topic_id
join headrace_internal.namespace n on n.namespace = v.namespace
where v.correlator_id = %(correlator_id)s and v.status = 'pending'
order by v.version_id;
