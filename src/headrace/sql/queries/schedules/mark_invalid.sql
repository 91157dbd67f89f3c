-- Marks a schedule whose expression cannot be planned. It is planned again when it is changed.
update headrace_internal.schedule s set error = left(%(error)s, 10000), replan_at = 'infinity'
where s.schedule_id = %(schedule_id)s and s.cron = %(cron)s and s.zone = %(zone)s;
