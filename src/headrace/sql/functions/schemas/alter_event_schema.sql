-- Changes the compatibility or the validation of an event type's schema; null keeps one. Raises HR133 if the type has no schema.
-- Takes the level admin. Locks: the namespace's row, until the end of the transaction.
create or replace function headrace.alter_event_schema(
    p_event_type text, p_compatibility text default null, p_validation text default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
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
