-- Records that the transaction of the last claim of a cursor was lost: its process was killed, hung for too long, or lost its connection.
-- A first time its batch is handled event by event from now on; nobody knows which event did it. A claim of a single event that is lost
-- is a failed attempt of that event, and the policy of the consumer decides. See headrace.fail.
-- Call it while the cursor is locked, and commit before the next claim. Locks: the cursor row. Indexes: log_partition, log_position.
create or replace function headrace_internal.count_lost_claim(
    p_consumer_id bigint, p_partition integer, p_position bigint, p_is_single boolean, p_max integer
) returns void
language plpgsql volatile
as $$
declare
    v_consumer record;
    v_upto     bigint;
begin
    select c.topic_id, coalesce(c.filter, 'true') as filter into v_consumer
    from headrace_internal.consumer c where c.consumer_id = p_consumer_id;
    execute format('select max(n.position) from (select l.position from headrace_internal.%I l where (%s) and %s limit $3) n',
        'log_' || v_consumer.topic_id, v_consumer.filter,
        case when p_partition < 0 then '$1 < 0 and l.position > $2 order by l.position'
            else 'l.partition <= $1 and (l.partition, l.position) > ($1, $2) order by l.partition, l.position' end)
    into v_upto using p_partition, p_position, case when p_is_single then 1 else p_max end;
    if v_upto is null then
        -- Nothing is left to handle. A new version of the row forgets the lost claim.
        update headrace_internal.cursor c set moved_at = headrace.clock()
        where c.consumer_id = p_consumer_id and c.partition = p_partition;
        return;
    end if;
    perform headrace.fail(p_consumer_id, p_partition, p_position, v_upto, case when p_is_single then 1 else 2 end,
        'SessionLost: the session that handled it was lost: its process was killed, hung for longer than its limit, or lost the connection');
end
$$;
