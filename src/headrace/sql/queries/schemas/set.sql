-- Sets the schema of an event type.
select headrace.set_event_schema(
    p_event_type => %(event_type)s, p_schema => %(schema)s::json, p_compatibility => %(compatibility)s,
    p_validation => %(validation)s, p_check => %(check)s::jsonb, p_expected_version => %(expected_version)s,
    p_forced => %(forced)s, p_namespace => %(namespace)s);
