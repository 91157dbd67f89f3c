-- Rejects a malformed cron expression: raises HR330 with the field. An expression that is well formed but never fires (30
-- February) is found when it is planned, and the schedule is marked with the error. The names of crontab(5), such as @daily, count
-- as expressions; the library knows their fields.
create or replace function headrace_internal.check_cron(p_cron text) returns void
language plpgsql immutable parallel safe
as $$
declare
    v_fields text[] := regexp_split_to_array(btrim(upper(p_cron), E' \t\n\r'), '\s+');
    v_kinds  text[] := array['second', 'minute', 'hour', 'day-of-month', 'month', 'day-of-week'];
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
        if not headrace_internal.cron_field_valid(v_fields[i], v_kinds[i]) then
            raise exception 'cron expression "%": bad % "%"', p_cron, v_kinds[i], v_fields[i]
                using errcode = 'HR330', hint = 'Write for example 30 6 * * MON-FRI: at half past six on working days.';
        end if;
    end loop;
end
$$;
