-- What correlators produced on an event. Index: correlation_position.
select f.correlation_id, v.correlator, v.version, f.key, f.token, f.becomes, f.name, f.output_id, f.evidence, f.fired_at
from headrace.correlation f
join headrace.correlator_version v on v.version_id = f.version_id
where f.topic_id = %(topic_id)s and f.position = %(position)s
order by f.correlation_id;
