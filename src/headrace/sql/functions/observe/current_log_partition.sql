-- The time partition that a topic's events are appended to now; null where it is not certain: on the events' clock, where pg_partman
-- uses other names, or after the server's clock went back, so that a later partition has events.
-- By its name, because every other way costs more than the look-up that wants it: a query by the topic's id plans a quarter of a
-- millisecond (measured). In each form of names, the order of the names is the order of the times.
-- p_at: the time, where the caller has it.
create or replace function headrace_internal.current_log_partition(
    p_topic_id integer, p_clock text, p_width text, p_at timestamptz default headrace.clock()
) returns regclass
language plpgsql stable
as $$
declare
    -- Borders are in UTC.
    v_start  timestamp := date_trunc(p_width, p_at at time zone 'UTC');
    v_prefix text := 'log_' || p_topic_id || '_p';
    -- The second form is pg_partman 4's.
    v_name   text := v_prefix || to_char(v_start, 'YYYYMMDD');
    v_now    regclass := to_regclass('headrace_internal.' || v_name);
begin
    if p_clock <> 'server' then
        return null;
    end if;
    if v_now is null then
        v_name := v_prefix || to_char(v_start, case p_width when 'month' then 'YYYY_MM' when 'week' then 'IYYY"w"IW' else 'YYYY_MM_DD' end);
        v_now := to_regclass('headrace_internal.' || v_name);
    end if;
    return case when v_now is not null and not exists (
        select from pg_inherits n
        join pg_inherits i on i.inhparent = n.inhparent
        join pg_class c on c.oid = i.inhrelid
        where n.inhrelid = v_now and c.relname > v_name collate "C" and pg_relation_size(c.oid) > 0) then v_now end;
end
$$;
