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
