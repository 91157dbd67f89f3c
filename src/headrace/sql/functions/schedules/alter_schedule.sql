-- Changes a schedule; null leaves a setting as it is. An empty key means no key. Locks: the schedule row.
create or replace function headrace.alter_schedule(
    p_schedule   text,
    p_cron       text default null,
    p_zone       text default null,
    p_type       text default null,
    p_payload    jsonb default null,
    p_key        text default null,
    p_headers    jsonb default null,
    p_missed     text default null,
    p_missed_max integer default null,
    p_grace_s    double precision default null,
    p_namespace  text default null,
    p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize(p_caller, 'admin', p_namespace);
    update headrace_internal.schedule s
    set cron = coalesce(p_cron, s.cron), zone = coalesce(p_zone, s.zone), type = coalesce(p_type, s.type),
        payload = coalesce(p_payload, s.payload), key = nullif(coalesce(p_key, s.key), ''),
        headers = coalesce(p_headers, s.headers), missed = coalesce(p_missed, s.missed),
        missed_max = coalesce(p_missed_max, s.missed_max), grace_s = coalesce(p_grace_s, s.grace_s)
    where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace);
end
$$;
