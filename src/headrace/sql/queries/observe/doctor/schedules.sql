-- Active schedules that fail or are invalid.
select 'schedules' as check, case when i.invalid then 'problem' else 'warning' end as level,
    format('%%s/%%s %%s: %%s', s.namespace, s.schedule, case when i.invalid then 'is invalid' else 'fails and is retried' end,
        coalesce(s.error, 'it never fires')) as message,
    format('correct it; see: headrace schedule show ''%%s'' --namespace %%s', s.schedule, s.namespace) as advice
from headrace_internal.schedule s cross join lateral (select s.replan_at = 'infinity' as invalid) i
where s.active and (s.error is not null or i.invalid)
order by s.namespace, s.schedule;
