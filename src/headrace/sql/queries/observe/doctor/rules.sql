-- Rules that should be active but are not: invalid, or waiting for a compiler for too long. Index: rule_version_pending.
select 'rules' as check, case v.status when 'invalid' then 'problem' else 'warning' end as level,
    format('%%s/%%s ', r.namespace, r.rule) || case v.status when 'invalid' then format('is invalid: %%s', split_part(v.error, E'\n', 1))
        else format('has waited %%s s to be compiled by a node', round(extract(epoch from headrace.clock() - v.written_at))) end as message,
    case v.status when 'invalid' then format('correct its condition; see: headrace rule show ''%%s'' --namespace %%s', r.rule, r.namespace)
        else 'run: headrace node run' end as advice
from headrace_internal.rule r
join headrace_internal.rule_version v on v.rule_id = r.rule_id and v.version = r.version
where v.status = 'invalid' or (v.status = 'pending' and v.written_at < headrace.clock() - make_interval(secs => %(pending_max_s)s))
order by r.namespace, r.rule;
