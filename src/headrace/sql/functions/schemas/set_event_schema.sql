-- Gives an event type a JSON Schema and returns the number of the version. The event type is registered if it is not. A schema that
-- equals the current one makes no new version; its settings change all the same. Null keeps a setting (defaults: backward, off).
-- p_check is what the library prints for the check of payloads: {"check", "rules", "is_complete"}; without it validation must be off.
-- p_expected_version is the version that the schema was compared with (0: none); raises HR241 if there is another one by now.
-- Takes the level admin. Locks: the namespace's row, until the end of the transaction: creating a topic waits for it.
create or replace function headrace.set_event_schema(
    p_event_type text, p_schema json, p_compatibility text default null, p_validation text default null, p_check jsonb default null,
    p_expected_version integer default null, p_forced boolean default false, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
    v_current   headrace_internal.event_schema;
    v_version   integer;
begin
    if json_typeof(p_schema) is null or json_typeof(p_schema) not in ('object', 'boolean') then
        raise exception 'the schema is %, not an object', coalesce(json_typeof(p_schema), 'missing')
            using errcode = 'HR350', hint = 'Write a JSON Schema such as {"type": "object"}.';
    end if;
    perform from headrace_internal.namespace n where n.namespace = v_namespace for update;
    insert into headrace_internal.event_type (namespace, event_type) values (v_namespace, p_event_type) on conflict do nothing;
    select s.* into v_current from headrace_internal.event_schema s where s.namespace = v_namespace and s.event_type = p_event_type;
    if p_expected_version <> coalesce(v_current.version, 0) then
        raise exception 'the schema of % has version %, not %', p_event_type, coalesce(v_current.version, 0), p_expected_version
            using errcode = 'HR241', hint = 'Compare the new schema with that version, and set it again.';
    end if;
    v_version := coalesce(v_current.version, 0) + (v_current.schema::jsonb is distinct from p_schema::jsonb)::integer;
    insert into headrace_internal.event_schema as s
        (namespace, event_type, version, schema, compatibility, validation, check_path, check_is_complete, check_rules)
    values (v_namespace, p_event_type, v_version, p_schema, coalesce(p_compatibility, 'backward'), coalesce(p_validation, 'off'),
        (p_check ->> 'check')::jsonpath, (p_check ->> 'is_complete')::boolean, p_check -> 'rules')
    on conflict on constraint event_schema_pkey do update set
        version = excluded.version, schema = excluded.schema, compatibility = coalesce(p_compatibility, s.compatibility),
        validation = coalesce(p_validation, s.validation), check_path = excluded.check_path,
        check_is_complete = excluded.check_is_complete, check_rules = excluded.check_rules
    returning s.compatibility into v_current.compatibility;
    insert into headrace_internal.event_schema_version (namespace, event_type, version, schema, compatibility, forced, written_by)
    values (v_namespace, p_event_type, v_version, p_schema, v_current.compatibility, p_forced, p_caller)
    on conflict on constraint event_schema_version_pkey do nothing;
    return v_version;
exception
    when check_violation then
        raise exception 'the schema of % cannot be stored: %', p_event_type, sqlerrm
            using errcode = 'HR350', hint = 'Compatibility is backward, forward, full or none; validation off, warn or reject, which need'
                ' the check that the library prints: use headrace event-type set. A schema has at most 262144 bytes.';
end
$$;
