-- The lag of a consumer with a cursor per partition: how many events it has not handled, and the time of the oldest of them. Positions
-- count the events of all partitions, so those of one partition are counted by an index, up to p_exact; beyond that the number is an
-- estimate, the partition's share of the events since its oldest one.
-- p_now: the time partition that is written now, or null; it is used if all events to handle are in it. Index: log_partition, in a
-- form that rules out every other index, see headrace_internal.next_position.
create or replace function headrace_internal.partition_lag(
    p_consumer_id bigint, p_topic_id integer, p_now regclass, p_head bigint, p_partitions integer, p_exact integer default 100,
    out events double precision, out oldest_at timestamptz
)
language plpgsql stable
as $$
declare
    v_cursor record;
    v_lag    record;
    v_first  bigint;
begin
    events := 0;
    if p_now is not null then
        execute format('select l.position from %s l order by l.position limit 1', p_now) into v_first;
    end if;
    for v_cursor in
        select u.partition, u.position from headrace_internal.cursor u where u.consumer_id = p_consumer_id and u.position < p_head
    loop
        execute format(
            'select count(*) as events, min(l.position) as first_position, min(l.appended_at) as oldest_at from ('
            'select l.position, l.appended_at from %s l where l.partition <= %s and (l.partition, l.position) > (%2$s, %s) '
            'order by l.partition, l.position limit %s) l',
            case when v_cursor.position + 1 >= v_first then p_now else format('headrace_internal.%I', 'log_' || p_topic_id)::regclass end,
            v_cursor.partition, v_cursor.position, p_exact + 1) into v_lag;
        events := events + case when v_lag.events <= p_exact then v_lag.events
            else greatest(v_lag.events, ceil((p_head - v_lag.first_position + 1)::double precision / p_partitions)) end;
        oldest_at := least(oldest_at, v_lag.oldest_at);
    end loop;
end
$$;
