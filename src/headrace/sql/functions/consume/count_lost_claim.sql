-- Records that the transaction of the last claim of a cursor was lost: its process was killed, hung for too long, or lost its connection.
-- If it was a redrive, the dead letter is dead again. Else the first time its batch is handled event by event from now on; nobody knows
-- which event did it. Then a claim of a single event that is lost is a failed attempt of that event. It may have been lost with another
-- one, so the next attempt is made alone on its node, and only after that the policy of the consumer decides. See headrace.fail. False, and nothing changes, if the claim was not lost; see headrace_internal.is_claim_lost.
-- Call it while the cursor is locked, and commit before the next claim. Locks: the cursor row, and the letter. Indexes: log_partition,
-- log_position, dead_letter_redrive.
create or replace function headrace_internal.count_lost_claim(
    p_consumer_id bigint, p_partition integer, p_position bigint, p_is_single boolean, p_max integer
) returns boolean
language plpgsql volatile
as $$
declare
    v_text     text := 'SessionLost: the session that handled it was lost: its process was killed, hung for longer than its limit, '
        'or lost the connection';
    v_claim    record;
    v_consumer record;
    v_letter   bigint;
    v_upto     bigint;
begin
    select k.xmax as claimed_by, c.xmin as written_by, coalesce(c.lost_at = c.position, false) as is_alone into v_claim
    from headrace_internal.claim k join headrace_internal.cursor c on c.consumer_id = k.consumer_id and c.partition = k.partition
    where k.consumer_id = p_consumer_id and k.partition = p_partition;
    if not headrace_internal.is_claim_lost(v_claim.claimed_by, v_claim.written_by) then
        return false;
    end if;
    -- A redrive has locked its letter, too.
    select d.dead_letter_id into v_letter from headrace_internal.dead_letter d
    where d.consumer_id = p_consumer_id and d.partition = p_partition and d.state = 'redrive' and d.xmax = v_claim.claimed_by;
    select c.topic_id, coalesce(c.filter, 'true') as filter into v_consumer
    from headrace_internal.consumer c where c.consumer_id = p_consumer_id;
    if v_letter is not null then
        perform headrace.end_redrive(v_letter, v_text);
    else
        execute format('select max(n.position) from (select l.position from headrace_internal.%I l where (%s) and %s limit $3) n',
            'log_' || v_consumer.topic_id, v_consumer.filter,
            case when p_partition < 0 then '$1 < 0 and l.position > $2 order by l.position'
                else 'l.partition <= $1 and (l.partition, l.position) > ($1, $2) order by l.partition, l.position' end)
        into v_upto using p_partition, p_position, case when p_is_single then 1 else p_max end;
    end if;
    if v_upto is null then
        -- No event was lost. A new version of the row says that this was recorded.
        update headrace_internal.cursor c set moved_at = headrace.clock()
        where c.consumer_id = p_consumer_id and c.partition = p_partition;
    else
        perform headrace.fail(p_consumer_id, p_partition, p_position, v_upto, case when p_is_single then 1 else 2 end, v_text,
            p_verdict => case when p_is_single and not v_claim.is_alone then 'retry' end);
        update headrace_internal.cursor c set lost_at = p_position
        where c.consumer_id = p_consumer_id and c.partition = p_partition and c.position = p_position and p_is_single;
    end if;
    return true;
end
$$;
