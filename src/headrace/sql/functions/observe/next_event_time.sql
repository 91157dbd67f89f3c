-- The time of the first event after a position in a topic's log; null if there is none. p_now: the time partition that is written now,
-- or null; if the next position is not there, by the whole log. For p_prepare see headrace_internal.metrics_of_log. Index: log_position.
create or replace function headrace_internal.next_event_time(p_topic_id integer, p_now regclass, p_position bigint, p_prepare boolean)
returns timestamptz
language plpgsql volatile
as $$
declare
    v_query text := format('select l.appended_at from %s l where l.position = ', p_now);
    v_call  text := format('execute headrace_metrics_time_%s (%s)', p_now::oid, p_position + 1);
    v_time  timestamptz;
begin
    if p_now is not null and not p_prepare then
        execute v_query || (p_position + 1) into v_time;
    elsif p_now is not null then
        begin
            execute v_call into v_time;
        exception
            -- Not prepared in this session yet (a syntax error on PostgreSQL 15).
            when invalid_sql_statement_name or syntax_error then
                execute format('prepare headrace_metrics_time_%s (bigint) as %s $1', p_now::oid, v_query);
                execute v_call into v_time;
        end;
    end if;
    if v_time is null then
        -- Not part of an expression: it would be set up for every table of the log even where it is not needed.
        select l.appended_at into v_time from headrace_internal.log l
        where l.topic_id = p_topic_id and l.position > p_position order by l.position limit 1;
    end if;
    return v_time;
end
$$;
