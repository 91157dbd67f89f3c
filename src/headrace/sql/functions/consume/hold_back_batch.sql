-- Holds back what headrace.hold_back finds among the events after a claimed cursor up to p_upto, and returns which of these events are
-- dead letters or wait behind one; null if none is.
-- Locks: see headrace.hold_back. Index: dead_letter_once.
create or replace function headrace_internal.hold_back_batch(
    p_consumer_id bigint, p_partition integer, p_position bigint, p_upto bigint
) returns bigint[]
language plpgsql volatile
as $$
begin
    perform headrace.hold_back(p_consumer_id, p_partition, p_position, p_upto);
    return (
        select array_agg(d.position) from headrace_internal.dead_letter d
        where d.consumer_id = p_consumer_id and d.position > p_position and d.position <= p_upto
            and d.state in ('dead', 'behind', 'redrive'));
end
$$;
