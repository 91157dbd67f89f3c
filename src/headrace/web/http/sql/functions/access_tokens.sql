-- Creates an access token for HTTP and returns it: this is the only time it is shown. Rights are 'publish' and 'read'; topics and
-- event types are names, or beginnings that end in *, null for all. With p_digest, the SHA-256 of a token that the caller has made
-- itself, it returns null. Raises HR260 if the name is in use, HR370 for values that are not allowed. Takes the level admin.
create or replace function headrace.create_access_token(
    p_name        text,
    p_rights      text[],
    p_topics      text[] default null,
    p_event_types text[] default null,
    p_expires_at  timestamptz default null,
    p_rate_per_s  double precision default null,
    p_digest      bytea default null,
    p_namespace   text default null,
    p_caller      headrace_internal.caller default current_user
) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
    v_token     text;
begin
    if p_digest is null then
        -- 366 random bits of the server's strong generator, hashed to 256.
        v_token := 'hrt_' || translate(encode(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
            || uuid_send(gen_random_uuid())), 'base64'), '+/=', '-_');
        p_digest := sha256(convert_to(v_token, 'UTF8'));
    end if;
    insert into headrace_internal.access_token
        (namespace, name, digest, rights, topics, event_types, expires_at, rate_per_s, created_by)
    values (v_namespace, p_name, p_digest, p_rights, p_topics, p_event_types, p_expires_at, p_rate_per_s, p_caller);
    return v_token;
exception
    when unique_violation then
        raise exception 'access token "%" already exists in namespace "%"', p_name, v_namespace
            using errcode = 'HR260', hint = 'Choose another name, or revoke that one first.';
    when check_violation or not_null_violation then
        raise exception 'the access token "%" cannot be stored: %', p_name, sqlerrm
            using errcode = 'HR370', hint = 'Rights are publish and read; a name has lower-case letters, digits and _ . -; topics and'
                ' event types are lists of 1 to 100 names, or null.';
end
$$;

-- Finds the access token with a digest, for the HTTP server; no row if there is none, or if the caller holds no level in its namespace.
-- Locks nothing. Index: access_token_digest_unique.
create or replace function headrace.find_access_token(p_digest bytea, p_caller headrace_internal.caller default current_user)
returns table (token_id bigint, namespace text, name text, rights text[], topics text[], event_types text[],
    rate_per_s double precision, expires_at timestamptz, revoked_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
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

-- Records that access tokens were used: an HTTP server calls it once a minute. Leaves out tokens of namespaces in which the caller
-- holds no level. Locks: the rows, skip locked. Index: access_token_pkey.
create or replace function headrace.touch_access_tokens(p_token_ids bigint[], p_caller headrace_internal.caller default current_user)
returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'any');
begin
    update headrace_internal.access_token t set last_used_at = headrace.clock()
    where t.token_id in (
        select o.token_id from headrace_internal.access_token o
        where o.token_id = any (p_token_ids) and o.namespace = any (v_namespaces)
        order by o.token_id for no key update skip locked);
end
$$;

-- Revokes an access token; servers reject it a few seconds later at most. Its row stays, for the record. Raises HR160 if there is
-- none in use with this name. Takes the level admin. Index: access_token_name_unique.
create or replace function headrace.revoke_access_token(
    p_name text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
begin
    update headrace_internal.access_token t set revoked_at = headrace.clock()
    where t.namespace = v_namespace and t.name = p_name and t.revoked_at is null;
    if not found then
        raise exception 'there is no access token "%" in namespace "%"', p_name, v_namespace
            using errcode = 'HR160', hint = 'See: headrace token list.';
    end if;
end
$$;
