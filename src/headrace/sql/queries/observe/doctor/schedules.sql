-- Active schedules that fail or are invalid.
select s.namespace, s.schedule, s.replan_at = 'infinity' as invalid, coalesce(s.error, 'it never fires') as error
from headrace.schedule s
where s.active and (s.error is not null or s.replan_at = 'infinity')
order by s.namespace, s.schedule;
