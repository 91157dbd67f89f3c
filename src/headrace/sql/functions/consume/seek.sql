-- The position a consumer would stand at for a target: 'earliest', 'latest', a position (as text), or a time.
-- The next event handled is the one after it. Raises HR300 for a target that is none of these, HR307 beyond the log.
-- Index: log_position; a time is found in the topic's time partitions.
create or replace function headrace.seek_position(p_topic_id integer, p_target text) returns bigint
language plpgsql stable
as $$
declare
    v_first    bigint;
    v_head     bigint;
    v_position bigint;
    v_time     timestamptz;
begin
    select t.dropped_to, coalesce((select h.position from headrace.log_head(t.topic_id) h), t.dropped_to)
    into v_first, v_head
    from headrace.topic t where t.topic_id = p_topic_id;
    if p_target = 'earliest' then
        return v_first;
    elsif p_target = 'latest' then
        return v_head;
    elsif p_target ~ '^[0-9]{1,18}$' then
        -- The event named is the next one to be handled.
        v_position := p_target::bigint - 1;
        if v_position not between v_first and v_head then
            raise exception 'position % is not in the log, which holds % to %', p_target, v_first + 1, v_head
                using errcode = 'HR307', hint = 'Use earliest or latest, or a position within.';
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
    select min(l.position) - 1 into v_position
    from headrace.log l where l.topic_id = p_topic_id and l.appended_at >= v_time;
    return coalesce(v_position, v_head);
end
$$;

-- Moves all cursors of a consumer to a target and says, per partition, from where to where and how many events that is:
-- events > 0 will be handled again, events < 0 will be skipped. With p_preview nothing moves.
-- Clears a stop, a pending retry and its error. Locks: the consumer's cursors, so it waits for running handlers.
create or replace function headrace.seek(
    p_topic     text,
    p_consumer  text,
    p_target    text,
    p_preview   boolean default false,
    p_namespace text default null
) returns table (partition integer, from_position bigint, to_position bigint, events bigint)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_consumer_id integer := headrace.consumer_id(p_topic, p_consumer, p_namespace);
    v_topic_id    integer := headrace.topic_id(p_topic, p_namespace);
    v_to          bigint := headrace.seek_position(v_topic_id, p_target);
begin
    if p_consumer like 'headrace.correlator.%' and not p_preview then
        raise exception 'consumer "%" moves with the keys of its correlator only', p_consumer
            using errcode = 'HR200', hint = 'To begin anew, update headrace.correlator set restart = true.';
    end if;
    if not p_preview then
        perform from headrace.cursor c where c.consumer_id = v_consumer_id order by c.partition for no key update;
    end if;
    return query
    select c.partition, c.position, v_to,
        sign(c.position - v_to)::bigint * (
            select count(*) from headrace.log l
            where l.topic_id = v_topic_id and (c.partition = -1 or l.partition = c.partition)
                and l.position > least(c.position, v_to) and l.position <= greatest(c.position, v_to))
    from headrace.cursor c where c.consumer_id = v_consumer_id order by c.partition;
    if not p_preview then
        update headrace.cursor c
        set position = v_to, state = 'running', attempts = 0, retry_at = null, error = null, single_to = 0,
            moved_at = headrace.clock()
        where c.consumer_id = v_consumer_id;
        perform pg_notify('headrace_log', v_topic_id::text);
    end if;
end
$$;

-- Lets stopped partitions of a consumer try again where they stand. Returns how many.
create or replace function headrace.resume(p_topic text, p_consumer text, p_namespace text default null) returns integer
language plpgsql volatile
as $$
declare
    v_consumer_id integer := headrace.consumer_id(p_topic, p_consumer, p_namespace);
    v_count       integer;
begin
    update headrace.cursor c set state = 'running', attempts = 0, retry_at = null, error = null
    where c.consumer_id = v_consumer_id and (c.state = 'stopped' or c.retry_at is not null);
    get diagnostics v_count = row_count;
    perform pg_notify('headrace_log', headrace.topic_id(p_topic, p_namespace)::text);
    return v_count;
end
$$;
