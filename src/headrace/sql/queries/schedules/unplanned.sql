-- Active schedules whose plan must reach further, those that wait longest first. One that cannot be planned pauses: see
-- headrace_internal.failure. Only names: a time that Python cannot read must not hide the other schedules.
select s.schedule_id, s.namespace, s.schedule
from headrace_internal.schedule s
where s.active and s.replan_at <= headrace.clock()
    and not exists (select from headrace_internal.failure f
        where f.kind = 'schedule plan' and f.namespace = s.namespace and f.name = s.schedule and f.retry_at > headrace.clock())
order by s.replan_at
limit 100;
