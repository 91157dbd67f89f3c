-- Deletes the recorded failure of a schedule that was fired. Index: failure_pkey.
delete from headrace_internal.failure f using headrace_internal.schedule s
where s.schedule_id = %(schedule_id)s and f.kind = 'schedule' and f.namespace = s.namespace and f.name = s.schedule;
