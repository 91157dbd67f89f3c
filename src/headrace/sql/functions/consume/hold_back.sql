-- Events of a claimed batch whose key has a dead letter before them: puts them aside as well ('behind'), so that the key's
-- order is not lost silently, and returns how many. Only where the consumer's key_order is 'hold'.
-- Index: dead_letter_held, log_partition.
create or replace function headrace_internal.hold_back(p_consumer_id integer, p_partition integer, p_position bigint, p_upto bigint)
returns integer
language plpgsql volatile
as $$
declare
    v_topic_id integer;
    v_held     integer;
begin
    select c.topic_id into v_topic_id
    from headrace_internal.consumer c
    where c.consumer_id = p_consumer_id and c.key_order = 'hold'
        and exists (select from headrace_internal.dead_letter d
            where d.consumer_id = p_consumer_id and d.state in ('dead', 'behind', 'redrive'));
    if v_topic_id is null then
        return 0;
    end if;
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
