-- The cursor position for a target: 'earliest', 'latest', a position (as text), or a time. The next event handled is the one after
-- it. Raises HR300 for any other target, HR307 for a position outside the log.
-- Index: log_position; a time is found in the topic's time partitions.
create or replace function headrace.seek_position(
    p_topic_id integer, p_target text, p_caller headrace_internal.caller default current_user
) returns bigint
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_first    bigint;
    v_head     bigint;
    v_position bigint;
    v_time     timestamptz;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    select t.dropped_to, coalesce((select h.position from headrace.log_head(t.topic_id) h), t.dropped_to)
    into v_first, v_head
    from headrace_internal.topic t where t.topic_id = p_topic_id;
    if p_target = 'earliest' then
        return v_first;
    elsif p_target = 'latest' then
        return v_head;
    elsif p_target ~ '^[0-9]{1,18}$' then
        -- The event named is the next one to be handled.
        v_position := p_target::bigint - 1;
        if v_position not between v_first and v_head then
            raise exception 'position % is not in the log, which holds % to %', p_target, v_first + 1, v_head
                using errcode = 'HR307', hint = 'Use earliest, latest, or a position in the log.';
        end if;
        return v_position;
    end if;
    begin
        v_time := p_target::timestamptz;
    exception when data_exception or datetime_field_overflow then
        raise exception 'cannot seek to "%"', p_target
            using errcode = 'HR300', hint = 'Use earliest, latest, a position, or a time such as 2026-01-31T12:00:00Z.';
    end;
    -- Times rise with positions, so the first event of the time partition is the one wanted.
    execute format('select min(l.position) - 1 from headrace_internal.%I l where l.appended_at >= $1', 'log_' || p_topic_id)
    into v_position using v_time;
    return coalesce(v_position, v_head);
end
$$;
