-- The time of the first event after a position in a topic's log; null if there is none. p_now: the time partition that is written now,
-- or null; if the next position is not there, by the topic's branch. For p_prepare see headrace_internal.metrics_of_log. Index: log_position.
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
        execute format('select l.appended_at from headrace_internal.%I l where l.position > $1 order by l.position limit 1',
            'log_' || p_topic_id) into v_time using p_position;
    end if;
    return v_time;
end
$$;
