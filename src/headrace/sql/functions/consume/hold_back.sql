-- Moves events of a claimed batch to the dead letters ('behind') whose key has an earlier dead letter, so that the key keeps its
-- order; returns how many. Only for consumers with key_order 'hold'.
-- Locks: earlier letters of these keys in other partitions, key share: the end of their redrive waits for this batch, so that it finds
-- what was held back here. In the same partition the cursor does that. Index: dead_letter_held, log_partition.
create or replace function headrace.hold_back(
    p_consumer_id integer, p_partition integer, p_position bigint, p_upto bigint, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_topic_id integer;
    v_held     integer;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    select c.topic_id into v_topic_id
    from headrace_internal.consumer c
    where c.consumer_id = p_consumer_id and c.key_order = 'hold'
        and exists (select from headrace_internal.dead_letter d
            where d.consumer_id = p_consumer_id and d.state in ('dead', 'behind', 'redrive'));
    if v_topic_id is null then
        return 0;
    end if;
    perform from headrace_internal.dead_letter d
    where d.consumer_id = p_consumer_id and d.state in ('dead', 'behind', 'redrive') and d.partition <> p_partition
        and d.key in (
            select l.key from headrace_internal.log l
            where l.topic_id = v_topic_id and (p_partition = -1 or l.partition = p_partition)
                and l.position > p_position and l.position <= p_upto)
    order by d.position
    for key share;
    insert into headrace_internal.dead_letter
        (consumer_id, partition, position, event_id, type, key, payload, headers, state, reason, attempts)
    select p_consumer_id, p_partition, l.position, l.event_id, l.type, l.key, l.payload, l.headers,
        'behind', 'an earlier event of its key is a dead letter', 0
    from headrace_internal.log l
    where l.topic_id = v_topic_id and (p_partition = -1 or l.partition = p_partition)
        and l.position > p_position and l.position <= p_upto
        and exists (select from headrace_internal.dead_letter d
            where d.consumer_id = p_consumer_id and d.key = l.key and d.state in ('dead', 'behind', 'redrive')
                and d.position < l.position)
    on conflict on constraint dead_letter_once do nothing;
    get diagnostics v_held = row_count;
    return v_held;
end
$$;
