-- What a stored rule says about a JSON object, without publishing it: true, false, or null if its condition is unknown. An event of another
-- type than the rule's is false; without p_type the object is one of the rule's type. Evaluates the compiled condition of the rule's
-- newest version, also of a rule that is not active. Raises HR120 for a rule that is unknown, HR200 while the rule waits for a node that compiles it, HR300 for an invalid one.
-- Indexes: rule_name_unique, rule_version_unique. Calls: headrace_internal.evaluate_filter.
create or replace function headrace.evaluate(
    p_rule       text,
    p_object     jsonb,
    p_type       text default null,
    p_key        text default null,
    p_headers    jsonb default '{}',
    p_emitted_at timestamptz default null,
    p_namespace  text default null,
    p_caller     headrace_internal.caller default current_user
) returns boolean
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
    v_version   record;
begin
    select v.event_type, v.status, v.error, v.filter into v_version
    from headrace_internal.rule r
    join headrace_internal.rule_version v on v.rule_id = r.rule_id and v.version = r.version
    where r.namespace = v_namespace and r.rule = p_rule;
    if not found then
        raise exception 'there is no rule "%" in namespace "%"', p_rule, v_namespace
            using errcode = 'HR120', hint = 'See: select rule from headrace.rule.';
    elsif v_version.status = 'pending' then
        raise exception 'rule "%" is not compiled yet', p_rule
            using errcode = 'HR200', hint = 'Run a node: headrace node run.';
    elsif v_version.status = 'invalid' then
        raise exception 'rule "%" is invalid: %', p_rule, v_version.error
            using errcode = 'HR300', hint = 'Correct its condition.';
    end if;
    return coalesce(p_type, v_version.event_type) = v_version.event_type and headrace_internal.evaluate_filter(v_version.filter, v_version.event_type, p_key,
        coalesce(p_object, 'null'), coalesce(p_headers, '{}'), coalesce(p_emitted_at, headrace.clock()));
end
$$;
