-- The newest position of a topic's log; p_dropped_to if it is empty. p_now: the time partition that is written now, or null; without
-- an event there, by the whole log. Index: log_position, backwards.
create or replace function headrace_internal.topic_head(p_topic_id integer, p_now regclass, p_dropped_to bigint) returns bigint
language plpgsql stable
as $$
declare
    v_head bigint;
begin
    if p_now is not null then
        execute format('select l.position from %s l order by l.position desc limit 1', p_now) into v_head;
    end if;
    return coalesce(v_head, (select h.position from headrace.log_head(p_topic_id) h), p_dropped_to);
end
$$;
