-- The current schemas of a namespace: all, or that of one event type.
select event_type, version, schema::text as text, compatibility, validation, check_is_complete, written_at, written_by
from headrace.event_schema
where namespace = headrace.current_namespace(%(namespace)s) and (%(event_type)s::text is null or event_type = %(event_type)s)
order by event_type;
