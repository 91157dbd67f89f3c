-- Correlators that should be active but are not: invalid, or waiting for a compiler for too long. Index: correlator_version_pending.
select 'correlators' as check, case v.status when 'invalid' then 'problem' else 'warning' end as level,
    format('%%s/%%s ', c.namespace, c.correlator) || case v.status
        when 'invalid' then format('is invalid: %%s', split_part(v.error, E'\n', 1))
        else format('has waited %%s s to be compiled by a node', round(extract(epoch from headrace.clock() - v.written_at))) end as message,
    case v.status when 'invalid'
        then format('correct its pattern; see: headrace correlator show ''%%s'' --namespace %%s', c.correlator, c.namespace)
        else 'run: headrace node run' end as advice
from headrace_internal.correlator c
join headrace_internal.correlator_version v on v.correlator_id = c.correlator_id and v.version = c.version
where v.status = 'invalid' or (v.status = 'pending' and v.written_at < headrace.clock() - make_interval(secs => %(pending_max_s)s))
order by c.namespace, c.correlator;
