-- The hook of an address, for servers of HTTP; no row if there is none, or if the caller may not publish in its namespace.
-- Locks nothing. Index: hook_name_unique.
create or replace function headrace.find_hook(p_namespace text, p_hook text, p_caller headrace_internal.caller default current_user)
returns table (hook_id bigint, namespace text, hook text, topic text, scheme text, secrets text[], mapping jsonb,
    window_s double precision, active boolean, created_at timestamptz, created_by text, id_key uuid)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'publish');
begin
    return query
        select h.hook_id, h.namespace, h.hook, h.topic, h.scheme, h.secrets, h.mapping, h.window_s, h.active, h.created_at, h.created_by,
            h.id_key
        from headrace_internal.hook h where h.namespace = p_namespace and h.hook = p_hook and h.namespace = any (v_namespaces);
end
$$;
