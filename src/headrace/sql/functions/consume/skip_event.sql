-- Skips the event at which a partition of a consumer is stuck, that is: has stopped, or waits for a retry. The event becomes a dead
-- letter with its error, and the partition goes on behind it. Without p_partition there must be one such partition only.
-- Raises HR200 if none is stuck, or several are.
-- Locks: the cursor row, so it waits for a running handler. Indexes: log_partition, or log_position for a cursor over the topic.
-- It names the topic's own branch, see headrace_internal.next_position. Calls: headrace.fail, which buries the event.
create or replace function headrace.skip_event(
    p_topic text, p_consumer text, p_partition integer default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns table (partition integer, "position" bigint, event_id uuid, type text, key text)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
    v_consumer_id bigint := headrace_internal.consumer_id(p_topic, p_consumer, v_namespace);
    v_consumer    record;
    v_stuck       integer[];
    v_cursor      record;
begin
    perform headrace_internal.refuse_reserved_consumer(p_consumer, p_is_seek => true);
    select array_agg(c.partition order by c.partition) into v_stuck
    from (
        select c.partition from headrace_internal.cursor c
        where c.consumer_id = v_consumer_id and c.attempts > 0 and (p_partition is null or c.partition = p_partition)
        order by c.partition for no key update) c;
    if v_stuck is null then
        raise exception '% of consumer "%" is stopped or waits for a retry',
            coalesce('partition ' || p_partition || ' is not stuck: no event', 'no partition'), p_consumer
            using errcode = 'HR200', hint = 'See: headrace consumer lag. To pass events that have not failed, use seek.';
    elsif cardinality(v_stuck) > 1 then
        raise exception '% partitions of consumer "%" are stuck: %', cardinality(v_stuck), p_consumer, array_to_string(v_stuck, ', ')
            using errcode = 'HR200', hint = 'Name the partition whose event is to be skipped.';
    end if;
    select c.partition, c.position, c.error, c.traceback into v_cursor
    from headrace_internal.cursor c where c.consumer_id = v_consumer_id and c.partition = v_stuck[1];
    select c.topic_id, case when c.condition is null then 'true' else coalesce(c.filter, 'true') end as filter into v_consumer
    from headrace_internal.consumer c where c.consumer_id = v_consumer_id;
    -- Events that wait behind a dead letter are not the failing one: the handler never gets them.
    execute format(
        'select $1, l.position, l.event_id, l.type, l.key from headrace_internal.%I l where (%s) and %s, l.position limit 1',
        'log_' || v_consumer.topic_id, v_consumer.filter,
        'not exists (select from headrace_internal.dead_letter d where d.consumer_id = $3 and d.position = l.position '
        'and d.state in (''dead'', ''behind'', ''redrive'')) and ' || case
            when v_cursor.partition < 0 then 'l.position > $2 order by l.position'
            else 'l.partition <= $1 and (l.partition, l.position) > ($1, $2) order by l.partition' end)
    into partition, position, event_id, type, key using v_cursor.partition, v_cursor.position, v_consumer_id;
    perform headrace.fail(
        v_consumer_id, v_cursor.partition, v_cursor.position, position, 1, v_cursor.error, v_cursor.traceback, p_verdict => 'skip');
    update headrace_internal.cursor c set state = 'running' where c.consumer_id = v_consumer_id and c.partition = v_cursor.partition;
    perform headrace_internal.notify('headrace_log', v_consumer.topic_id::text);
    return next;
end
$$;
