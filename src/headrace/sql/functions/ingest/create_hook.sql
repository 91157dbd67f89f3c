-- Creates a hook: the address /hooks/<namespace>/<hook> takes webhooks of a scheme ('standard-webhooks', 'github', 'stripe', 'token')
-- and turns them into events of a topic. Secrets are references (env:NAME, file:name) that the server looks up; several may be valid at
-- once. An empty mapping means the one of the scheme. Raises HR261 if the hook exists, HR101 for an unknown topic, HR371 for values
-- that are not allowed. Takes the level admin.
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
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
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
            using errcode = 'HR371', hint = 'The scheme is standard-webhooks, github, stripe or token; secrets are references such as'
                ' env:GITHUB or file:github, never the secrets themselves.';
end
$$;
