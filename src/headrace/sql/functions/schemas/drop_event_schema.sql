-- Removes the schema of an event type with all its versions; the type stays registered. Raises HR133 if it has none.
-- Takes the level admin. Locks: the namespace's row, until the end of the transaction.
create or replace function headrace.drop_event_schema(
    p_event_type text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
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
