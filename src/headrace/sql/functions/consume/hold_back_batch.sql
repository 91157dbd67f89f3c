-- Holds back what headrace.hold_back finds among the next p_max events after a claimed cursor, and returns which of these events are
-- dead letters or wait behind one; null if none is.
-- Locks: see headrace.hold_back. Indexes: log_partition, log_position, dead_letter_once.
create or replace function headrace_internal.hold_back_batch(
    p_consumer_id integer, p_topic_id integer, p_partition integer, p_position bigint, p_max integer
) returns bigint[]
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_upto bigint;
begin
    if p_partition < 0 then
        select max(e.position) into v_upto
        from (
            select l.position from headrace_internal.log l
            where l.topic_id = p_topic_id and l.position > p_position order by l.position limit p_max) e;
    else
        select max(e.position) into v_upto
        from (
            select l.position from headrace_internal.log l
            where l.topic_id = p_topic_id and l.partition <= p_partition and (l.partition, l.position) > (p_partition, p_position)
                and l.position <= (select headrace_internal.consumer_bound(p_consumer_id, p_topic_id))
            order by l.partition, l.position limit p_max) e;
    end if;
    perform headrace.hold_back(p_consumer_id, p_partition, p_position, v_upto);
    return (
        select array_agg(d.position) from headrace_internal.dead_letter d
        where d.consumer_id = p_consumer_id and d.position > p_position and d.position <= v_upto
            and d.state in ('dead', 'behind', 'redrive'));
end
$$;
