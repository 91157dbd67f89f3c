-- The id of a schedule; raises HR130 when there is none.
create or replace function headrace.schedule_id(p_schedule text, p_namespace text default null) returns integer
language plpgsql stable
as $$
declare
    v_namespace   text := headrace.current_namespace(p_namespace);
    v_schedule_id integer;
    v_known       text;
begin
    select s.schedule_id into v_schedule_id
    from headrace.schedule s where s.namespace = v_namespace and s.schedule = p_schedule;
    if v_schedule_id is null then
        select string_agg(k.schedule, ', ' order by k.schedule) into v_known
        from (select s.schedule from headrace.schedule s where s.namespace = v_namespace order by 1 limit 10) k;
        raise exception 'there is no schedule "%" in namespace "%"', p_schedule, v_namespace
            using errcode = 'HR130', hint = format('Known schedules: %s.', coalesce(v_known, 'none'));
    end if;
    return v_schedule_id;
end
$$;

-- Creates a schedule and returns its id. Raises HR230 when it is there already, HR330 and HR331 for a bad expression or zone.
-- A node plans it within moments; until then nothing fires.
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
    p_namespace  text default null
) returns integer
language plpgsql volatile
as $$
declare
    v_namespace   text := headrace.current_namespace(p_namespace);
    v_schedule_id integer;
begin
    insert into headrace.schedule
        (namespace, schedule, cron, zone, topic_id, type, payload, key, headers, missed, missed_max, grace_s, active)
    values (v_namespace, p_schedule, p_cron, p_zone, headrace.topic_id(p_topic, v_namespace), p_type, p_payload, p_key,
        p_headers, p_missed, p_missed_max, p_grace_s, p_active)
    on conflict on constraint schedule_name_unique do nothing
    returning schedule_id into v_schedule_id;
    if v_schedule_id is null then
        raise exception 'schedule "%" is already there in namespace "%"', p_schedule, v_namespace
            using errcode = 'HR230', hint = 'Change it with headrace.alter_schedule, or choose another name.';
    end if;
    return v_schedule_id;
end
$$;

-- Changes a schedule; what is null stays. An empty key means: no key. Locks: the schedule row.
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
    p_namespace  text default null
) returns void
language sql volatile
as $$
    update headrace.schedule s
    set cron = coalesce(p_cron, s.cron), zone = coalesce(p_zone, s.zone), type = coalesce(p_type, s.type),
        payload = coalesce(p_payload, s.payload), key = nullif(coalesce(p_key, s.key), ''),
        headers = coalesce(p_headers, s.headers), missed = coalesce(p_missed, s.missed),
        missed_max = coalesce(p_missed_max, s.missed_max), grace_s = coalesce(p_grace_s, s.grace_s)
    where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace)
$$;

-- Stops a schedule. Ticks that pass meanwhile are not missed runs: they do not count at all.
create or replace function headrace.pause_schedule(p_schedule text, p_namespace text default null) returns void
language sql volatile
as $$
    update headrace.schedule s set active = false where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace)
$$;

-- Lets a paused schedule go on from now.
create or replace function headrace.resume_schedule(p_schedule text, p_namespace text default null) returns void
language sql volatile
as $$
    update headrace.schedule s set active = true where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace)
$$;

-- Drops a schedule with its record of ticks. Its events stay in the log.
create or replace function headrace.drop_schedule(p_schedule text, p_namespace text default null) returns void
language plpgsql volatile
as $$
begin
    delete from headrace.schedule s where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace);
    -- A node takes its pg_cron job away.
    perform pg_notify('headrace_schedule', '');
end
$$;

-- The next ticks of a schedule, as far as they are planned. Index: schedule_due_pkey.
create or replace function headrace.next_ticks(p_schedule text, p_limit integer default 10, p_namespace text default null)
returns table (tick_at timestamptz, local_time timestamp)
language sql stable
as $$
    select d.tick_at, d.tick_at at time zone s.zone
    from headrace.schedule s
    join headrace.schedule_due d on d.schedule_id = s.schedule_id
    where s.schedule_id = headrace.schedule_id(p_schedule, p_namespace)
    order by d.tick_at
    limit p_limit
$$;
