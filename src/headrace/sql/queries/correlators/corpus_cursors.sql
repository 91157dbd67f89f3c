-- Each correlator before the first of its own events.
update headrace_internal.cursor u set position = r.position
from unnest(%(names)s::text[], %(positions)s::bigint[]) r (name, position)
join headrace_internal.topic t on t.namespace = %(namespace)s
join headrace_internal.consumer c on c.topic_id = t.topic_id and c.consumer = 'headrace.correlator.' || r.name
where u.consumer_id = c.consumer_id;
