-- The time partition that a topic's events are appended to now; null where it is not certain: on the events' clock, where pg_partman
-- uses other names, or after the server's clock went back.
-- By its name, because every other way costs more than the look-up that wants it: a query by the topic's id plans a quarter of a
-- millisecond (measured).
-- p_at: the time, where the caller has it.
create or replace function headrace_internal.current_log_partition(
    p_topic_id integer, p_clock text, p_width text, p_at timestamptz default headrace.clock()
) returns regclass
language plpgsql stable
as $$
declare
    -- Borders are in UTC.
    v_start timestamp := date_trunc(p_width, p_at at time zone 'UTC');
    v_next  timestamp := v_start + ('1 ' || p_width)::interval;
    v_name  text := 'headrace_internal.log_' || p_topic_id || '_p';
    -- The second form is pg_partman 4's.
    v_form  text := case when to_regclass(v_name || to_char(v_start, 'YYYYMMDD')) is not null then 'YYYYMMDD'
        when p_width = 'month' then 'YYYY_MM' when p_width = 'week' then 'IYYY"w"IW' else 'YYYY_MM_DD' end;
    v_now   regclass := to_regclass(v_name || to_char(v_start, v_form));
begin
    if p_clock = 'server' and v_now is not null
            and coalesce(pg_relation_size(to_regclass(v_name || to_char(v_next, v_form))), 0) = 0 then
        return v_now;
    end if;
    return null;
end
$$;
