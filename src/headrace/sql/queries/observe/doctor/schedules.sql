-- Schedules that fail, or never come.
select s.namespace, s.schedule, s.replan_at = 'infinity' as invalid, coalesce(s.error, 'it never comes') as error
from headrace.schedule s
where s.active and (s.error is not null or s.replan_at = 'infinity')
order by s.namespace, s.schedule;
