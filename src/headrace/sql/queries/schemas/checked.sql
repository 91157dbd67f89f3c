-- The schemas of a namespace that payloads are checked by, with their digest: one statement, so that the two belong together.
select event_type, validation, schema::text, namespace_digest::text
from headrace.event_schema
where namespace = headrace.current_namespace(%(namespace)s) and validation <> 'off'
order by event_type;
