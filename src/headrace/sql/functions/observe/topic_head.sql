-- The newest position of a topic's log; p_dropped_to if it is empty. p_now: the time partition that is written now, or null; without
-- an event there, by the topic's branch. For p_prepare see headrace_internal.metrics_of_log. Index: log_position, backwards.
create or replace function headrace_internal.topic_head(p_topic_id integer, p_now regclass, p_dropped_to bigint, p_prepare boolean)
returns bigint
language plpgsql volatile
as $$
declare
    v_query text := format('select l.position from %s l order by l.position desc limit 1', p_now);
    v_call  text := 'execute headrace_metrics_head_' || p_now::oid;
    v_head  bigint;
begin
    if p_now is not null and not p_prepare then
        execute v_query into v_head;
    elsif p_now is not null then
        begin
            execute v_call into v_head;
        exception
            -- Not prepared in this session yet (a syntax error on PostgreSQL 15).
            when invalid_sql_statement_name or syntax_error then
                execute format('prepare headrace_metrics_head_%s as %s', p_now::oid, v_query);
                execute v_call into v_head;
        end;
    end if;
    if v_head is null then
        select h.position into v_head from headrace.log_head(p_topic_id) h;
    end if;
    return coalesce(v_head, p_dropped_to);
end
$$;
