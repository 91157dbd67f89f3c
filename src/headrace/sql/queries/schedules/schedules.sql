-- The schedules of a namespace, or one of them, each with its next and its last tick.
-- Indexes: schedule_name_unique, schedule_due_pkey, schedule_tick_once backwards.
select s.schedule_id, s.namespace, s.schedule, s.cron, s.zone, t.topic, s.type, s.payload, s.key, s.headers,
    s.missed, s.missed_max, s.grace_s,
    case when not s.active then 'paused' when s.replan_at = 'infinity' then 'invalid'
        when s.error is not null then 'failing' else 'active' end as state,
    s.error, s.cron_job_id is not null as by_cron, s.planned_until,
    (select d.tick_at from headrace.schedule_due d
        where d.schedule_id = s.schedule_id order by d.tick_at limit 1) as next_tick_at,
    (select f.tick_at from headrace.schedule_tick f
        where f.schedule_id = s.schedule_id and f.outcome = 'fired' order by f.tick_at desc limit 1) as last_tick_at
from headrace.schedule s
join headrace.topic t on t.topic_id = s.topic_id
where s.namespace = headrace.current_namespace(%(namespace)s)
    and (%(schedule)s::text is null or s.schedule = %(schedule)s)
order by s.schedule;
