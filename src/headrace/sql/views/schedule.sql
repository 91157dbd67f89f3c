-- Schedules. Admins of a namespace may insert and update rows, and drop one by `set dropped = true`.
create or replace view headrace.schedule as
select r.schedule_id, r.uid, r.namespace, r.schedule, r.cron, r.zone, r.topic_id, r.type, r.payload, r.key, r.headers,
    r.active, r.source, r.missed, r.missed_max, r.grace_s, r.planned_until, r.replan_at, r.cron_job_id, r.error,
    r.attempts, r.retry_at, r.created_at,
    false as dropped
from headrace_internal.readable_schedules() r;

create or replace trigger schedule_write instead of insert or update or delete on headrace.schedule
for each row execute function headrace_internal.write_view();
