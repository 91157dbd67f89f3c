-- Returns the namespace a call works in, or raises 42501 when the caller does not hold the level in it. A call that names a topic
-- gets HR101 where the caller holds no level at all: a topic it must not see looks like one that does not exist.
-- Raises 42501 for a null caller, too. The first statement of every function that runs as the owner; the alternatives are
-- headrace_internal.authorize_id and headrace_internal.authorized_namespaces.
create or replace function headrace_internal.authorize(
    p_caller name, p_level text, p_namespace text, p_topic text default null
) returns text
language plpgsql stable
as $$
declare
    v_namespace text := headrace.current_namespace(p_namespace);
begin
    if headrace_internal.holds_level(p_caller, p_level, v_namespace) is true then
        return v_namespace;
    end if;
    if p_topic is not null and headrace_internal.holds_level(p_caller, 'any', v_namespace) is not true then
        perform headrace_internal.raise_unknown_topic(p_topic, v_namespace, p_list => false);
    end if;
    raise exception 'permission denied for namespace "%"', v_namespace
        using errcode = '42501', hint = format('Role %s needs the level %s in it: see headrace.grant_namespace.', quote_ident(p_caller), p_level);
end
$$;
