-- Checks a payload against the schema of its event type: true, or an error (HR351) that names the path and the rule. A type that only
-- warns gets a warning and true; so do types without a schema, silently. Publishing calls it in namespaces with a type that is checked.
-- Locks nothing. Index: event_schema_pkey.
create or replace function headrace_internal.check_payload(p_namespace text, p_type text, p_payload jsonb) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schema  record;
    v_message text;
begin
    select s.version, s.validation, s.check_path, s.check_rules into v_schema
    from headrace_internal.event_schema s
    where s.namespace = p_namespace and s.event_type = p_type and s.validation <> 'off';
    -- Null is no answer of the check: its predicates are true or false.
    if not found or coalesce(jsonb_path_match(p_payload, v_schema.check_path, silent => true), false) then
        return true;
    end if;
    select format('payload of type %s breaks version %s of its schema at %s: %s', p_type, v_schema.version,
        coalesce(nullif(r.rule ->> 'path', ''), 'its root'), r.rule ->> 'rule') into v_message
    from jsonb_array_elements(v_schema.check_rules) with ordinality r (rule, place)
    where jsonb_path_match(p_payload, (r.rule ->> 'check')::jsonpath, silent => true) is not true
    order by r.place
    limit 1;
    v_message := coalesce(v_message, format('payload of type %s breaks version %s of its schema', p_type, v_schema.version));
    if v_schema.validation = 'warn' then
        raise warning '%', v_message using hint = 'The event is published all the same.';
        return true;
    end if;
    raise exception '%', v_message
        using errcode = 'HR351', hint = format('Correct the payload, or see the schema: headrace event-type show %s.', p_type);
end
$$;
