-- Returns a digest of the schemas that payloads of a namespace are checked by: another one after every change of them. Null if there are none.
-- Locks nothing. Index: event_schema_pkey.
create or replace function headrace_internal.schemas_digest(p_namespace text) returns bigint
language sql stable
as $$
    select hashtextextended(string_agg(concat_ws(' ', s.event_type, s.validation, md5(s.schema::text)), ',' order by s.event_type), 0)
    from headrace_internal.event_schema s
    where s.namespace = p_namespace and s.validation <> 'off'
$$;

-- After a schema was set, changed or dropped: marks the topics of the namespace in which publishing has to check payloads, and by which
-- schemas. A publisher whose snapshot is older than that checks by the schemas before. Locks: the topics' rows, in the order of their ids,
-- as an erasure does; a sequencer finishes its batch first.
-- Calls: schemas_digest.
create or replace function headrace_internal.event_schema_written() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := coalesce(new.namespace, old.namespace);
    v_digest    bigint := headrace_internal.schemas_digest(v_namespace);
begin
    perform from headrace_internal.topic t
    where t.namespace = v_namespace and t.schemas_digest is distinct from v_digest order by t.topic_id for no key update;
    update headrace_internal.topic t set checks_payloads = v_digest is not null, schemas_digest = v_digest
    where t.namespace = v_namespace and t.schemas_digest is distinct from v_digest;
    return null;
end
$$;

create or replace trigger event_schema_written after insert or update or delete on headrace_internal.event_schema
for each row execute function headrace_internal.event_schema_written();

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
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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

-- Changes the compatibility or the validation of an event type's schema; null keeps one. Raises HR133 if the type has no schema.
-- Takes the level admin. Locks: the namespace's row, until the end of the transaction.
create or replace function headrace.alter_event_schema(
    p_event_type text, p_compatibility text default null, p_validation text default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
begin
    perform from headrace_internal.namespace n where n.namespace = v_namespace for update;
    update headrace_internal.event_schema s
    set compatibility = coalesce(p_compatibility, s.compatibility), validation = coalesce(p_validation, s.validation)
    where s.namespace = v_namespace and s.event_type = p_event_type;
    if not found then
        raise exception 'event type % has no schema', p_event_type
            using errcode = 'HR133', hint = 'Set one: headrace event-type set.';
    end if;
exception
    when check_violation then
        raise exception 'the schema of % cannot be changed: %', p_event_type, sqlerrm
            using errcode = 'HR350', hint = 'Compatibility is backward, forward, full or none; validation off, warn or reject, which need'
                ' the check that the library prints: set the schema again with headrace event-type set.';
end
$$;

-- Removes the schema of an event type with all its versions; the type stays registered. Raises HR133 if it has none.
-- Takes the level admin. Locks: the namespace's row, until the end of the transaction.
create or replace function headrace.drop_event_schema(
    p_event_type text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
begin
    perform from headrace_internal.namespace n where n.namespace = v_namespace for update;
    delete from headrace_internal.event_schema s where s.namespace = v_namespace and s.event_type = p_event_type;
    if not found then
        raise exception 'event type % has no schema', p_event_type using errcode = 'HR133', hint = 'See: headrace event-type list.';
    end if;
end
$$;

-- Reports what a rule or correlator reads that the schema of its event type does not have, as the namespace treats unknown names:
-- 'refuse' raises HR352 for the errors, 'warn' warns about all, 'allow' says nothing. Takes the level admin.
create or replace function headrace.report_findings(
    p_errors text[], p_warnings text[], p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
    v_policy    text := (select n.unknown_names from headrace_internal.namespace n where n.namespace = v_namespace);
    v_finding   text;
begin
    if v_policy = 'allow' then
        return;
    end if;
    if v_policy = 'refuse' and cardinality(p_errors) > 0 then
        raise exception '%', array_to_string(p_errors, E'\n')
            using errcode = 'HR352', hint = 'Correct the condition or the schema, or let the namespace allow unknown names.';
    end if;
    foreach v_finding in array p_errors || p_warnings loop
        raise warning '%', v_finding;
    end loop;
end
$$;

-- Checks a payload against the schema of its event type: true, or an error (HR351) that names the path and the rule. A type that only
-- warns gets a warning and true; so do types without a schema, silently. Publishing calls it in namespaces with a type that is checked.
-- Locks nothing. Index: event_schema_pkey.
create or replace function headrace_internal.check_payload(p_namespace text, p_type text, p_payload jsonb) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp
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
