-- Returns the cursor position for a target: 'earliest', 'latest', a position (as text), or a time. The next event handled is the one after
-- it. Raises HR300 for any other target, HR307 for a position outside the log.
-- Index: log_position; a time is found in the topic's time partitions.
-- Calls: log_head.
create or replace function headrace.seek_position(
    p_topic_id integer, p_target text, p_caller headrace_internal.caller default current_user
) returns bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_first    bigint;
    v_head     bigint;
    v_position bigint;
    v_time     timestamptz;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    select t.dropped_to, coalesce((select h.position from headrace.log_head(t.topic_id) h), t.dropped_to)
    into v_first, v_head
    from headrace_internal.topic t where t.topic_id = p_topic_id;
    if p_target = 'earliest' then
        return v_first;
    elsif p_target = 'latest' then
        return v_head;
    elsif p_target ~ '^[0-9]{1,18}$' then
        -- The event named is the next one to be handled.
        v_position := p_target::bigint - 1;
        if v_position not between v_first and v_head then
            raise exception 'position % is not in the log, which holds % to %', p_target, v_first + 1, v_head
                using errcode = 'HR307', hint = 'Use earliest, latest, or a position in the log.';
        end if;
        return v_position;
    end if;
    begin
        v_time := p_target::timestamptz;
    exception when data_exception or datetime_field_overflow then
        raise exception 'cannot seek to "%"', p_target
            using errcode = 'HR300', hint = 'Use earliest, latest, a position, or a time such as 2026-01-31T12:00:00Z.';
    end;
    -- Times rise with positions, so the first event of the time partition is the one wanted.
    execute format('select min(l.position) - 1 from headrace_internal.%I l where l.appended_at >= $1', 'log_' || p_topic_id)
    into v_position using v_time;
    return coalesce(v_position, v_head);
end
$$;

-- Moves all cursors of a consumer, or that of one partition, to a target and returns, per partition, from where to where and the number of events: events > 0
-- will be handled again, events < 0 will be skipped. With p_preview nothing moves.
-- A consumer of rules or of a correlator does not move (HR223): its state moves only with its events.
-- Clears a stop, a pending retry and its error. Locks: the consumer's cursors, so it waits for running handlers.
-- Calls: consumer_id, topic_id, seek_position, refuse_reserved_consumer, notify.
create or replace function headrace.seek(
    p_topic     text,
    p_consumer  text,
    p_target    text,
    p_preview   boolean default false,
    p_namespace text default null,
    p_partition integer default null,
    p_caller    headrace_internal.caller default current_user
) returns table (partition integer, from_position bigint, to_position bigint, events bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
    v_consumer_id bigint := headrace_internal.consumer_id(p_topic, p_consumer, v_namespace);
    v_topic_id    integer := headrace.topic_id(p_topic, v_namespace);
    v_to          bigint := headrace.seek_position(v_topic_id, p_target);
begin
    if p_partition is not null and not exists (
            select from headrace_internal.cursor c where c.consumer_id = v_consumer_id and c.partition = p_partition) then
        raise exception 'consumer "%" of topic "%" has no partition %, only %', p_consumer, p_topic, p_partition, (
                select case when max(c.partition) < 0 then 'one cursor over the whole topic'
                    else format('%s to %s', min(c.partition), max(c.partition)) end
                from headrace_internal.cursor c where c.consumer_id = v_consumer_id)
            using errcode = 'HR300', hint = 'See: headrace consumer lag.';
    end if;
    if not p_preview then
        perform headrace_internal.refuse_reserved_consumer(p_consumer, p_is_seek => true);
        perform from headrace_internal.cursor c where c.consumer_id = v_consumer_id and (p_partition is null or c.partition = p_partition)
        order by c.partition for no key update;
    end if;
    -- Queries the topic's own branch: a query on the whole log plans and locks every topic.
    return query execute format(
        'select c.partition, c.position, $2, sign(c.position - $2)::bigint * ('
        'select count(*) from headrace_internal.%I l where (c.partition = -1 or l.partition = c.partition) '
        'and l.position > least(c.position, $2) and l.position <= greatest(c.position, $2)) '
        'from headrace_internal.cursor c where c.consumer_id = $1 and ($3 is null or c.partition = $3) order by c.partition',
        'log_' || v_topic_id)
    using v_consumer_id, v_to, p_partition;
    if not p_preview then
        update headrace_internal.cursor c
        set position = v_to, state = 'running', attempts = 0, retry_at = null, error = null, traceback = null, single_to = 0,
            moved_at = headrace.clock()
        where c.consumer_id = v_consumer_id and (p_partition is null or c.partition = p_partition);
        perform headrace_internal.notify('headrace_log', v_topic_id::text);
    end if;
end
$$;

-- Skips the event at which a partition of a consumer is stuck, that is: has stopped, or waits for a retry. The event becomes a dead
-- letter with its error, and the partition goes on behind it. Without p_partition there must be one such partition only.
-- Raises HR200 if none is stuck, or several are.
-- Locks: the cursor row, so it waits for a running handler. Indexes: log_partition, or log_position for a cursor over the topic.
-- It names the topic's own branch, see headrace_internal.next_position. Calls: headrace.fail, which buries the event.
-- Calls: consumer_id, refuse_reserved_consumer, fail, notify.
create or replace function headrace.skip_event(
    p_topic text, p_consumer text, p_partition integer default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns table (partition integer, "position" bigint, event_id uuid, type text, key text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
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
