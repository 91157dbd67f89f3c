-- Active relays that are invalid, disabled by their target, or run by no live node.
select 'relays' as check, case when r.status in ('invalid', 'disabled') then 'problem' else 'warning' end as level,
    format('%%s/%%s %%s', r.namespace, r.relay, case r.status
        when 'invalid' then 'is invalid: ' || coalesce(r.error, '')
        when 'disabled' then 'is disabled: ' || coalesce(r.error, '')
        else 'waits: no live node of its namespace runs it' end) as message,
    format(case r.status when 'invalid' then 'correct it; see: headrace relay show %%s --namespace %%s'
        when 'disabled' then 'when the target wants events again, run: headrace relay resume %%s --namespace %%s'
        else 'start a node of the namespace; see: headrace relay show %%s --namespace %%s' end, r.relay, r.namespace) as advice
from headrace_internal.relay r
where r.active and (r.status in ('invalid', 'disabled') or not exists (
    select from headrace_internal.node n
    where n.stopped_at is null and n.heartbeat_at > headrace.clock() - interval '90 seconds' and n.namespace = r.namespace
        and n.consumers @> array[r.topic || '/relay.' || r.relay]))
order by r.namespace, r.relay;
