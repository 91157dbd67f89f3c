-- The schedules of a namespace as they were written. Index: schedule_name_unique.
select s.schedule as name, s.cron, t.topic, s.type, s.payload, s.zone, s.key, s.headers, s.missed, s.missed_max, s.grace_s,
    s.active, s.source
from headrace.schedule s
join headrace.topic t on t.topic_id = s.topic_id
where s.namespace = headrace.current_namespace(%(namespace)s)
order by s.schedule;
