-- The rows of headrace_internal.relay that the caller may read. The view headrace.relay selects from this function and not from
-- the table: LOCK TABLE on a view that one may update would lock the tables it selects from.
create or replace function headrace_internal.readable_relays(p_caller headrace_internal.caller default current_user)
returns setof headrace_internal.relay
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'consume');
begin
    return query select r.* from headrace_internal.relay r where r.namespace = any (v_namespaces);
end
$$;
