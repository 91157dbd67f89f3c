-- True if a payload keeps the schema of its event type, or the type has none that is checked. A type that only warns is checked too: a
-- payload that breaks its schema is then published by headrace.publish, which warns. Raises nothing, see the view headrace.direct_event.
-- Locks nothing. Index: event_schema_pkey.
create or replace function headrace_internal.payload_fits(p_namespace text, p_type text, p_payload jsonb) returns boolean
language plpgsql stable
as $$
begin
    -- Null is no answer of the check: its predicates are true or false.
    return coalesce((
        select coalesce(jsonb_path_match(p_payload, s.check_path, silent => true), false)
        from headrace_internal.event_schema s
        where s.namespace = p_namespace and s.event_type = p_type and s.validation <> 'off'), true);
end
$$;
