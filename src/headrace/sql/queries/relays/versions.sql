-- The versions of a relay, also of a dropped one, oldest first.
select v.relay_id, v.version, t.topic, v.condition, v.target, v.options, v.format, v.mapping, v.active, v.dropped, v.written_at, v.written_by
from headrace.relay_version v
join headrace.topic t on t.topic_id = v.topic_id
where v.namespace = headrace.current_namespace(%(namespace)s) and v.relay = %(relay)s
order by v.relay_id, v.version;
