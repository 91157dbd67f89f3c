-- Reports names of a rule or correlator that are not registered: by the namespace's setting, they are rejected (HR340), warned
-- about, or allowed. p_unknown is the message; null: all names are registered.
create or replace function headrace_internal.check_names(p_namespace text, p_unknown text, p_noun text) returns void
language plpgsql stable
as $$
declare
    v_policy text := (select n.unknown_names from headrace_internal.namespace n where n.namespace = p_namespace);
    v_hint   text := format('A node registers the actions of its handlers when it starts. Otherwise insert the name into headrace.event_type or headrace.action, or correct the %s.', p_noun);
begin
    if v_policy = 'allow' or p_unknown is null then
        return;
    elsif v_policy = 'refuse' then
        raise exception '%', p_unknown using errcode = 'HR340', hint = v_hint;
    end if;
    raise warning '%', p_unknown using hint = v_hint;
end
$$;

-- Registers an event type that a node handles directly and the action its rule sends, and creates that rule, without a condition, in
-- one topic or in all topics of the namespace. An existing rule stays as it is: somebody may have switched it off.
-- Takes the level admin.
create or replace function headrace.handle_event_type(
    p_event_type text, p_action text, p_topic text default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
begin
    insert into headrace_internal.event_type (namespace, event_type) values (v_namespace, p_event_type) on conflict do nothing;
    insert into headrace_internal.action (namespace, action) values (v_namespace, p_action) on conflict do nothing;
    insert into headrace_internal.rule (namespace, rule, topic, event_type, condition, action, source)
    select t.namespace, p_action || ' ' || t.topic, t.topic, p_event_type, 'true', p_action, 'app'
    from headrace_internal.topic t
    where t.namespace = v_namespace and (p_topic is null or t.topic = p_topic)
        and not exists (select from headrace_internal.rule r where r.namespace = t.namespace and r.rule = p_action || ' ' || t.topic)
    on conflict on constraint rule_name_unique do nothing;
end
$$;
