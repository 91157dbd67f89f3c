-- The rows of headrace_internal.event_type that the caller may read. The view headrace.event_type selects from this function and not from
-- the table: LOCK TABLE on a view that one may update would lock the tables it selects from.
create or replace function headrace_internal.readable_event_types(p_caller headrace_internal.caller default current_user)
returns setof headrace_internal.event_type
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'any');
begin
    return query select r.* from headrace_internal.event_type r where r.namespace = any (v_namespaces);
end
$$;
