-- Changes a hook; null keeps a value. To rotate a secret, list the new reference first and the old one after it, and drop the old one
-- when no sender uses it any more. Raises HR161 if there is no such hook, HR371 for values that are not allowed. Takes the level admin.
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
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
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
