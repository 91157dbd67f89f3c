-- Creates a hook: the address /hooks/<namespace>/<hook> takes webhooks of a scheme ('standard-webhooks', 'github', 'stripe', 'token', or
-- one that a package adds to the servers) and turns them into events of a topic. Secrets are references (env:NAME, file:name) that the server looks up; several may be valid at
-- once. An empty mapping means the one of the scheme. Raises HR261 if the hook exists, HR101 for an unknown topic, HR371 for values
-- that are not allowed. Takes the level admin.
-- Calls: refuse_reserved_topic, topic_id.
create or replace function headrace.create_hook(
    p_hook      text,
    p_topic     text,
    p_scheme    text,
    p_secrets   text[],
    p_mapping   jsonb default '{}',
    p_window_s  double precision default 300,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
begin
    perform headrace_internal.refuse_reserved_topic(p_topic);
    perform headrace.topic_id(p_topic, v_namespace);
    insert into headrace_internal.hook (namespace, hook, topic, scheme, secrets, mapping, window_s, created_by)
    values (v_namespace, p_hook, p_topic, p_scheme, p_secrets, p_mapping, p_window_s, p_caller);
exception
    when unique_violation then
        raise exception 'hook "%" already exists in namespace "%"', p_hook, v_namespace
            using errcode = 'HR261', hint = 'Change it with headrace.alter_hook, or choose another name.';
    when check_violation or not_null_violation then
        raise exception 'hook "%" cannot be stored: %', p_hook, sqlerrm
            using errcode = 'HR371', hint = 'The scheme is standard-webhooks, github, stripe, token or the name of another one; secrets are references such as'
                ' env:GITHUB or file:github, never the secrets themselves.';
end
$$;

-- Changes a hook; null keeps a value. To rotate a secret, list the new reference first and the old one after it, and drop the old one
-- when no sender uses it any more. Raises HR161 if there is no such hook, HR371 for values that are not allowed. Takes the level admin.
-- Calls: refuse_reserved_topic, topic_id.
create or replace function headrace.alter_hook(
    p_hook      text,
    p_topic     text default null,
    p_secrets   text[] default null,
    p_mapping   jsonb default null,
    p_window_s  double precision default null,
    p_active    boolean default null,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
begin
    if p_topic is not null then
        perform headrace_internal.refuse_reserved_topic(p_topic);
        perform headrace.topic_id(p_topic, v_namespace);
    end if;
    update headrace_internal.hook h
    set topic = coalesce(p_topic, h.topic), secrets = coalesce(p_secrets, h.secrets), mapping = coalesce(p_mapping, h.mapping),
        window_s = coalesce(p_window_s, h.window_s), active = coalesce(p_active, h.active)
    where h.namespace = v_namespace and h.hook = p_hook;
    if not found then
        raise exception 'there is no hook "%" in namespace "%"', p_hook, v_namespace
            using errcode = 'HR161', hint = 'See: headrace hook list.';
    end if;
exception
    when check_violation or not_null_violation then
        raise exception 'hook "%" cannot be stored: %', p_hook, sqlerrm
            using errcode = 'HR371', hint = 'Secrets are references such as env:GITHUB or file:github, never the secrets themselves.';
end
$$;

-- Finds a hook by its address, for the HTTP server; no row if there is none, or if the caller may not publish in its namespace.
-- Locks nothing. Index: hook_name_unique.
create or replace function headrace.find_hook(p_namespace text, p_hook text, p_caller headrace_internal.caller default current_user)
returns table (hook_id bigint, namespace text, hook text, topic text, scheme text, secrets text[], mapping jsonb,
    window_s double precision, active boolean, created_at timestamptz, created_by text, id_key uuid)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
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

-- Drops a hook; its events stay. Raises HR161 if there is no such hook. Takes the level admin.
create or replace function headrace.drop_hook(
    p_hook text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
begin
    delete from headrace_internal.hook h where h.namespace = v_namespace and h.hook = p_hook;
    if not found then
        raise exception 'there is no hook "%" in namespace "%"', p_hook, v_namespace
            using errcode = 'HR161', hint = 'See: headrace hook list.';
    end if;
end
$$;
