-- Marks a schedule whose expression cannot be planned. It is planned again when it is changed.
create or replace function headrace_internal.refuse_schedule(p_schedule_id integer, p_cron text, p_zone text, p_error text) returns void
language sql volatile
as $$
    update headrace.schedule s set error = left(p_error, 10000), replan_at = 'infinity'
    where s.schedule_id = p_schedule_id and s.cron = p_cron and s.zone = p_zone
$$;
