-- Checks the names of outputs against the registries: by the namespace's setting, an unknown name is rejected (HR340), warned
-- about, or allowed.
create or replace function headrace_internal.check_output_names(p_namespace text, p_outputs jsonb) returns void
language plpgsql stable
as $$
declare
    v_policy  text;
    v_unknown text := headrace_internal.unknown_outputs(p_namespace, p_outputs);
    v_hint    text := 'Insert the name into headrace.event_type or headrace.action, or correct the correlator.';
begin
    select n.unknown_names into v_policy from headrace.namespace n where n.namespace = p_namespace;
    if v_policy = 'allow' or v_unknown is null then
        return;
    elsif v_policy = 'refuse' then
        raise exception 'namespace "%": %', p_namespace, v_unknown using errcode = 'HR340', hint = v_hint;
    end if;
    raise warning 'namespace "%": %', p_namespace, v_unknown using hint = v_hint;
end
$$;
