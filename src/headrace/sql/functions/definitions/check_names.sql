-- Checks a rule's names against the registries: by the namespace's setting, an unknown name is rejected (HR340), warned about, or
-- allowed.
create or replace function headrace_internal.check_names(p_namespace text, p_event_type text, p_action text) returns void
language plpgsql stable
as $$
declare
    v_policy  text;
    v_unknown text;
begin
    select n.unknown_names into v_policy from headrace.namespace n where n.namespace = p_namespace;
    if v_policy = 'allow' then
        return;
    end if;
    v_unknown := nullif(concat_ws(' and ',
        case when not exists (select from headrace.event_type e
            where e.namespace = p_namespace and e.event_type = p_event_type) then format('event type "%s"', p_event_type) end,
        case when not exists (select from headrace.action a
            where a.namespace = p_namespace and a.action = p_action) then format('action "%s"', p_action) end), '');
    if v_unknown is null then
        return;
    end if;
    if v_policy = 'refuse' then
        raise exception 'namespace "%" does not know %', p_namespace, v_unknown
            using errcode = 'HR340', hint = 'Insert the name into headrace.event_type or headrace.action, or correct the rule.';
    end if;
    raise warning 'namespace "%" does not know %', p_namespace, v_unknown
        using hint = 'Insert the name into headrace.event_type or headrace.action, or correct the rule.';
end
$$;
