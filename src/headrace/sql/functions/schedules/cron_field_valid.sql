-- Is this field of a cron expression well formed? Values and ranges, names, lists and steps; L and LW in the day of month, 5L and
-- MON#2 in the day of week. The same grammar as the library's; a test compares them.
create or replace function headrace_internal.cron_field_valid(p_field text, p_kind text) returns boolean
language plpgsql immutable parallel safe
as $$
declare
    v_from  integer := case when p_kind in ('day-of-month', 'month') then 1 else 0 end;
    v_to    integer := case p_kind when 'hour' then 23 when 'day-of-month' then 31 when 'month' then 12
        when 'day-of-week' then 7 else 59 end;
    v_names text[] := case p_kind
        when 'month' then array['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC']
        when 'day-of-week' then array['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'] else '{}' end;
    v_term  text;
    v_part  text[];
    v_value text;
    v_last  integer;
    v_this  integer;
begin
    foreach v_term in array string_to_array(p_field, ',') loop
        if p_kind = 'day-of-week' and v_term ~ '^0*[0-7]L$' then
            continue;
        elsif p_kind = 'day-of-week' and v_term ~ '^(0*[0-7]|[A-Z]{3})#0*[1-5]$' then
            v_term := split_part(v_term, '#', 1);
        end if;
        v_part := regexp_match(v_term, '^([^/]+)(?:/0*([0-9]{1,9}))?$');
        if v_part is null or v_part[2] ~ '^0*$' then
            return false;
        end if;
        continue when v_part[1] = '*' or (p_kind = 'day-of-month' and v_part[1] in ('L', 'LW'));
        v_last := v_from;
        foreach v_value in array string_to_array(v_part[1], '-') loop
            v_this := case when v_value ~ '^0*[0-9]{1,3}$' then v_value::integer
                else array_position(v_names, v_value) - 1 + v_from end;
            if v_this is null or v_this not between v_last and v_to then
                return false;
            end if;
            v_last := v_this;
        end loop;
        if array_length(string_to_array(v_part[1], '-'), 1) > 2 then
            return false;
        end if;
    end loop;
    return p_field <> '';
end
$$;
