-- What correlators produced on an event, and what their timers produced later with the event among the evidence.
-- Indexes: correlation_position; for timers correlation_timer, from the event's time on.
select f.correlation_id, v.correlator, v.version, f.key, f.token, f.becomes, f.name, f.output_id, f.evidence, f.fired_at, f.position is null as timer
from headrace.correlation f
join headrace.correlator_version v on v.version_id = f.version_id
where f.topic_id = %(topic_id)s and (f.position = %(position)s
    or (f.position is null and f.output_at >= %(appended_at)s and f.evidence @> array[%(position)s::bigint]))
order by f.correlation_id;
