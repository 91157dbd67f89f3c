-- The access token with a digest, for servers of HTTP; no row if there is none, or if the caller holds no level in its namespace.
-- Locks nothing. Index: access_token_digest_unique.
create or replace function headrace.find_access_token(p_digest bytea, p_caller headrace_internal.caller default current_user)
returns table (token_id bigint, namespace text, name text, rights text[], topics text[], event_types text[],
    rate_per_s double precision, expires_at timestamptz, revoked_at timestamptz)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'any');
begin
    return query
        select t.token_id, t.namespace, t.name, t.rights, t.topics, t.event_types, t.rate_per_s, t.expires_at, t.revoked_at
        from headrace_internal.access_token t
        where t.digest = p_digest and t.namespace = any (v_namespaces);
end
$$;
