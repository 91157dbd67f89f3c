-- The correlators with an active version.
select t.correlator_id, t.version_id, t.consumer_id, v.topic_id, v.correlator, o.topic, v.namespace, t.simple
from headrace_internal.correlator_table t
join headrace_internal.correlator_version v on v.version_id = t.version_id
join headrace_internal.topic o on o.topic_id = v.topic_id
where not t.halted
order by t.correlator_id;
