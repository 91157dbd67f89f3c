-- Are there p_min events after a cursor, or has the oldest waited p_wait_s seconds? Indexes: log_partition, log_position.
create or replace function headrace_internal.has_batch(
    p_topic_id integer, p_partition integer, p_position bigint, p_min integer, p_wait_s double precision
) returns boolean
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_events    integer;
    v_oldest_at timestamptz;
begin
    if p_partition < 0 then
        select count(*), min(e.appended_at) into v_events, v_oldest_at
        from (
            select l.appended_at from headrace_internal.log l
            where l.topic_id = p_topic_id and l.position > p_position order by l.position limit p_min) e;
    else
        select count(*), min(e.appended_at) into v_events, v_oldest_at
        from (
            select l.appended_at from headrace_internal.log l
            where l.topic_id = p_topic_id and l.partition <= p_partition and (l.partition, l.position) > (p_partition, p_position)
            order by l.partition, l.position limit p_min) e;
    end if;
    return v_events >= p_min or v_oldest_at <= headrace.clock() - make_interval(secs => p_wait_s);
end
$$;
