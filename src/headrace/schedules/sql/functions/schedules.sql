-- Rejects a malformed cron expression: raises HR330 with the field. A field has values and ranges, names, lists and steps; L and LW in
-- the day of month, 5L and MON#2 in the day of week: the same grammar as the library's, a test compares them. An expression that is well
-- formed but never fires (30 February) is found when it is planned, and the schedule is marked with the error. The names of crontab(5),
-- such as @daily, count as expressions; the library knows their fields.
create or replace function headrace_internal.check_cron(p_cron text) returns void
language plpgsql immutable parallel safe
as $$
declare
    v_fields text[] := regexp_split_to_array(btrim(upper(p_cron), E' \t\n\r'), '\s+');
    v_kinds  text[] := array['second', 'minute', 'hour', 'day-of-month', 'month', 'day-of-week'];
    v_kind   text;
    v_from   integer;
    v_to     integer;
    v_names  text[];
    v_term   text;
    v_part   text[];
    v_value  text;
    v_last   integer;
    v_this   integer;
    v_valid  boolean;
begin
    if v_fields[1] ~ '^@' then
        if v_fields <@ '{@YEARLY,@ANNUALLY,@MONTHLY,@WEEKLY,@DAILY,@MIDNIGHT,@HOURLY}' and cardinality(v_fields) = 1 and length(p_cron) <= 200 then
            return;
        end if;
        raise exception 'cron expression "%": there is no such name', left(p_cron, 200)
            using errcode = 'HR330', hint = 'Write @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, or 5 or 6 fields.';
    end if;
    if length(p_cron) > 200 or array_length(v_fields, 1) not in (5, 6) then
        raise exception 'cron expression "%" has % fields', left(p_cron, 200), array_length(v_fields, 1)
            using errcode = 'HR330',
                hint = 'Write 5 fields (minute hour day-of-month month day-of-week), or 6 with seconds first; at most 200 characters.';
    end if;
    if array_length(v_fields, 1) = 5 then
        v_kinds := v_kinds[2:];
    end if;
    for i in 1 .. array_length(v_fields, 1) loop
        v_kind := v_kinds[i];
        v_from := case when v_kind in ('day-of-month', 'month') then 1 else 0 end;
        v_to := case v_kind when 'hour' then 23 when 'day-of-month' then 31 when 'month' then 12 when 'day-of-week' then 7 else 59 end;
        v_names := case v_kind
            when 'month' then array['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC']
            when 'day-of-week' then array['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'] else '{}' end;
        foreach v_term in array string_to_array(v_fields[i], ',') loop
            v_valid := true;
            continue when v_kind = 'day-of-week' and v_term ~ '^0*[0-7]L$';
            if v_kind = 'day-of-week' and v_term ~ '^(0*[0-7]|[A-Z]{3})#0*[1-5]$' then
                v_term := split_part(v_term, '#', 1);
            end if;
            v_part := regexp_match(v_term, '^([^/]+)(?:/0*([0-9]{1,9}))?$');
            v_valid := v_part is not null and (v_part[2] ~ '^0*$') is not true;
            exit when not v_valid;
            continue when v_part[1] = '*' or (v_kind = 'day-of-month' and v_part[1] in ('L', 'LW'));
            v_last := v_from;
            foreach v_value in array string_to_array(v_part[1], '-') loop
                v_this := case when v_value ~ '^0*[0-9]{1,3}$' then v_value::integer
                    else array_position(v_names, v_value) - 1 + v_from end;
                v_valid := v_this is not null and v_this between v_last and v_to;
                exit when not v_valid;
                v_last := v_this;
            end loop;
            v_valid := v_valid and array_length(string_to_array(v_part[1], '-'), 1) <= 2;
            exit when not v_valid;
        end loop;
        if not v_valid then
            raise exception 'cron expression "%": bad % "%"', p_cron, v_kinds[i], v_fields[i]
                using errcode = 'HR330', hint = 'Write for example 30 6 * * MON-FRI: at half past six on working days.';
        end if;
    end loop;
end
$$;

-- Returns the headers that a scheduled event has in addition to its own.
create or replace function headrace_internal.schedule_headers(p_schedule_id bigint, p_schedule text, p_tick_at timestamptz) returns jsonb
language sql stable parallel safe
-- The text of the tick must not depend on the session's time zone.
set timezone = 'UTC'
as $$
    select jsonb_build_object('scheduled_task_id', p_schedule_id, 'schedule', p_schedule, 'scheduled_at', p_tick_at)
$$;

-- Before a schedule is written: rejects invalid expressions, zones, events and topics of another namespace; a change of
-- expression, zone or state deletes the plan. Ticks that are due stay due, unless the schedule is paused.
-- A dropped schedule leaves its pg_cron job to a node, which is notified.
-- Calls: topic_id, refuse_reserved_topic, check_cron, event_within_limits, schedule_headers, notify.
create or replace function headrace_internal.schedule_written() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'DELETE' then
        perform headrace_internal.notify('headrace_schedule', '');
        return old;
    end if;
    -- Check this also where only the namespace differs: a schedule publishes in its own.
    if tg_op = 'INSERT' or (new.topic, new.namespace) is distinct from (old.topic, old.namespace) then
        new.topic_id := headrace.topic_id(new.topic, new.namespace);
        perform headrace_internal.refuse_reserved_topic(new.topic);
    end if;
    if tg_op = 'INSERT' or new.cron is distinct from old.cron then
        perform headrace_internal.check_cron(new.cron);
    end if;
    -- Accept only IANA names: PostgreSQL itself would accept abbreviations and formulas too.
    if (tg_op = 'INSERT' or new.zone is distinct from old.zone) and (new.zone ~ '^(posix|right|localtime|Factory)'
        or not exists (select from pg_timezone_names z where z.name = new.zone)) then
        raise exception 'there is no time zone "%"', left(new.zone, 100)
            using errcode = 'HR331', hint = 'Use an IANA name such as Europe/Berlin, or UTC.';
    end if;
    perform headrace.event_within_limits(new.type, new.key, new.payload,
        new.headers || headrace_internal.schedule_headers(0, new.schedule, headrace.clock()));
    if tg_op = 'INSERT' or (new.cron, new.zone, new.active) is distinct from (old.cron, old.zone, old.active) then
        new.planned_until := headrace.clock();
        new.replan_at := '-infinity';
        new.error := null;
        new.attempts := 0;
        new.retry_at := null;
        delete from headrace_internal.schedule_due d
        where d.schedule_id = new.schedule_id and (d.tick_at > headrace.clock() or not new.active);
        perform headrace_internal.notify('headrace_schedule', '');
    end if;
    return new;
end
$$;

create or replace trigger schedule_written before insert or update or delete on headrace_internal.schedule
for each row execute function headrace_internal.schedule_written();

-- Returns the id of a schedule; raises HR130 if it does not exist.
create or replace function headrace.schedule_id(
    p_schedule text, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
    v_schedule_id bigint;
    v_known       text;
begin
    select s.schedule_id into v_schedule_id
    from headrace_internal.schedule s where s.namespace = v_namespace and s.schedule = p_schedule;
    if v_schedule_id is null then
        select string_agg(k.schedule, ', ' order by k.schedule) into v_known
        from (select s.schedule from headrace_internal.schedule s where s.namespace = v_namespace order by 1 limit 10) k;
        raise exception 'there is no schedule "%" in namespace "%"', p_schedule, v_namespace
            using errcode = 'HR130', hint = format('Known schedules: %s.', coalesce(v_known, 'none'));
    end if;
    return v_schedule_id;
end
$$;
