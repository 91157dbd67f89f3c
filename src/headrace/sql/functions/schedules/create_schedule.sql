-- Creates a schedule and returns its id. Raises HR230 if it exists already, HR330 and HR331 for an invalid expression or zone.
-- A node plans it within moments; nothing fires before that.
create or replace function headrace.create_schedule(
    p_schedule   text,
    p_cron       text,
    p_topic      text,
    p_type       text,
    p_payload    jsonb default '{}',
    p_zone       text default 'UTC',
    p_key        text default null,
    p_headers    jsonb default '{}',
    p_missed     text default 'skip',
    p_missed_max integer default 100,
    p_grace_s    double precision default 120,
    p_active     boolean default true,
    p_namespace  text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'admin', p_namespace);
    v_schedule_id integer;
begin
    insert into headrace_internal.schedule
        (namespace, schedule, cron, zone, topic_id, type, payload, key, headers, missed, missed_max, grace_s, active)
    values (v_namespace, p_schedule, p_cron, p_zone, headrace.topic_id(p_topic, v_namespace), p_type, p_payload, p_key,
        p_headers, p_missed, p_missed_max, p_grace_s, p_active)
    on conflict on constraint schedule_name_unique do nothing
    returning schedule_id into v_schedule_id;
    if v_schedule_id is null then
        raise exception 'schedule "%" already exists in namespace "%"', p_schedule, v_namespace
            using errcode = 'HR230', hint = 'Change it with headrace.alter_schedule, or choose another name.';
    end if;
    return v_schedule_id;
end
$$;
