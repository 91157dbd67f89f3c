-- The time of the first event after a position in a topic's log; null if there is none. p_now: the time partition that is written now,
-- or null; if the next position is not there, by the whole log. Index: log_position.
create or replace function headrace_internal.next_event_time(p_topic_id integer, p_now regclass, p_position bigint) returns timestamptz
language plpgsql stable
as $$
declare
    v_time timestamptz;
begin
    if p_now is not null then
        execute format('select l.appended_at from %s l where l.position = %s', p_now, p_position + 1) into v_time;
    end if;
    return coalesce(v_time, (
        select l.appended_at from headrace_internal.log l
        where l.topic_id = p_topic_id and l.position > p_position order by l.position limit 1));
end
$$;
