-- The versions of an event type's schema, oldest first.
select event_type, version, schema::text as text, compatibility, forced, written_at, written_by
from headrace.event_schema_version
where namespace = headrace.current_namespace(%(namespace)s) and event_type = %(event_type)s
order by version;
