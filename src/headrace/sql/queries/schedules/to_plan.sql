-- Active schedules whose plan must reach further, or one of them; with the current time.
select s.schedule_id, s.cron, s.zone, s.planned_until, headrace.clock() as now
from headrace.schedule s
where s.active and s.replan_at <= headrace.clock()
    and (%(schedule_id)s::integer is null or s.schedule_id = %(schedule_id)s)
order by s.replan_at
limit 100;
