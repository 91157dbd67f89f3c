-- Moves events of a claimed batch to the dead letters ('behind') whose key has an earlier dead letter, so that the key keeps its
-- order; returns how many. Only for consumers with key_order 'hold', and only events for which the consumer's condition is true.
-- Locks: earlier letters of these keys, key share: the end of their redrive, or a discard, waits for this batch, so that it finds what was
-- held back here. The events, for share, nowait: an erasure that is under way raises 55P03, and one that comes waits, so that it finds
-- them. Index: dead_letter_held, log_partition.
-- It names the topic's own branch, see headrace_internal.next_position.
create or replace function headrace.hold_back(
    p_consumer_id bigint, p_partition integer, p_position bigint, p_upto bigint, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_consumer record;
    v_events   text;
    v_held     integer;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    select c.topic_id, c.condition is null as is_unconditional, c.filter into v_consumer
    from headrace_internal.consumer c
    where c.consumer_id = p_consumer_id and c.key_order = 'hold'
        and exists (select from headrace_internal.dead_letter d
            where d.consumer_id = p_consumer_id and d.state in ('dead', 'behind', 'redrive'));
    if not found then
        return 0;
    end if;
    v_events := format('headrace_internal.%I l '
        'where ($2 = -1 or l.partition = $2) and l.position > $3 and l.position <= $4 and not l.headers ? ''headrace-erased'' and (%s)',
        'log_' || v_consumer.topic_id, case when v_consumer.is_unconditional then 'true' else coalesce(v_consumer.filter, 'false') end);
    execute format(
        'select from headrace_internal.dead_letter d '
        'where d.consumer_id = $1 and d.state in (''dead'', ''behind'', ''redrive'') '
        'and d.key in (select l.key from %s) order by d.position for key share of d', v_events)
    using p_consumer_id, p_partition, p_position, p_upto;
    execute format(
        'insert into headrace_internal.dead_letter '
        '(consumer_id, partition, position, event_id, type, key, payload, headers, state, reason, attempts) '
        'select $1, $2, l.position, l.event_id, l.type, l.key, l.payload, l.headers, '
        '''behind'', ''an earlier event of its key is a dead letter'', 0 from %s '
        'and exists (select from headrace_internal.dead_letter d where d.consumer_id = $1 and d.key = l.key '
        'and d.state in (''dead'', ''behind'', ''redrive'') and d.position < l.position) for share of l nowait '
        'on conflict on constraint dead_letter_once do nothing', v_events)
    using p_consumer_id, p_partition, p_position, p_upto;
    get diagnostics v_held = row_count;
    return v_held;
end
$$;
