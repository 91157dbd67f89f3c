-- True if a payload keeps the schema of its event type, or the type has none that is checked. A type that only warns is checked too: a
-- payload that breaks its schema is then published by headrace.publish, which warns. Raises nothing, see the view headrace.direct_event.
-- Locks nothing. Index: event_schema_pkey.
create or replace function headrace_internal.payload_fits(p_namespace text, p_type text, p_payload jsonb) returns boolean
language plpgsql stable
as $$
declare
    v_check jsonpath;
begin
    -- In two steps: the second one is an expression that PL/pgSQL keeps, and needs no query.
    select s.check_path into v_check
    from headrace_internal.event_schema s
    where s.namespace = p_namespace and s.event_type = p_type and s.validation <> 'off';
    return v_check is null or coalesce(jsonb_path_match(p_payload, v_check, silent => true), false);
end
$$;
