-- Claims partitions of a consumer that have events due and returns these events: at most p_partitions and p_max events in total, the
-- partitions longest unmoved first; fewer than p_min events of a partition only when the oldest has waited p_wait_s seconds. No row:
-- nothing is due, or the consumer is paused. A partition whose batch has failed gives one event at a time, and none beside others.
-- The events of a partition come in order. Behind them comes the row of the claim, without event_id: its partition is that of the
-- cursor (-1: the whole topic), its position where the cursor stands, and its payload has the number of "events" before it, the
-- failed "attempts" of the first of them, and the positions that are "held" back because an earlier event of their key is a dead
-- letter. It is "partial" if more events may be due than were claimed. A row for 0 events only says that,
-- or that nothing was claimed because other sessions have "locked" what is due, or that an event should be handled "alone".
-- p_alone is for events whose last session was lost with others: true claims only such an event, to be handled while no other handler
-- of the process runs, so that a further loss is its own; false leaves them out; null takes no notice.
-- If the consumer has a condition, only events for which it is true are returned. "upto", unless it is null, is where the cursor goes
-- when they are handled: the events behind the last of them do not match. A stretch without any match is passed here; the cursor moves
-- with this transaction. A claim looks at 11 000 events per partition at most, and is partial if more may follow.
-- The claim is the row lock on the cursor: it ends with the transaction, so a dead process holds nothing. It lasts to the end of the
-- transaction, so a partition without enough events is not locked: its events would wait for the handler of another one.
-- A claim also locks its row in headrace_internal.claim, as the last thing it does. If that transaction was rolled back (it is still on
-- the row, as xmax), and nobody has recorded why, its session was lost. Then the next claim only records that, see
-- headrace_internal.count_lost_claim, and returns a row for 0 events: commit, and claim again. So a healthy batch writes nothing for it.
-- Whoever handles events and has to give up, but lives, undoes what it did by a savepoint and commits, or calls headrace.release_claims.
-- While the events are handled, the session may be idle for as long as the consumer's session_limit_s: a process that hangs for longer
-- loses its session, and with it the claim.
-- The border that the consumer may not pass yet is read in the same statement as the events: an event beyond a border is visible
-- only together with the border.
-- In a large log every read names the topic's own branch, see headrace_internal.log_is_small.
-- Locks: cursor rows, no key update, skip locked, and the same rows of headrace_internal.claim. Indexes: log_partition, or log_position for a cursor over the topic. The form of
-- the condition rules out every other index, see headrace_internal.next_position.
create or replace function headrace.claim_events(
    p_consumer_id bigint,
    p_max         integer,
    p_min         integer default 1,
    p_wait_s      double precision default 0,
    p_partitions  integer default 1,
    p_alone       boolean default null,
    p_caller      headrace_internal.caller default current_user
) returns table (
    "position" bigint, partition integer, event_id uuid, topic text, type text, key text, payload jsonb, headers jsonb,
    emitted_at timestamptz, appended_at timestamptz, producer text)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_consumer   record;
    -- A cursor and not a query in the loop: that would fetch ten rows, and so check ten partitions, where one is enough.
    v_candidates refcursor;
    v_next       record;
    v_cursor     record;
    v_matches    record;
    v_upto       bigint;
    v_has_more   boolean;
    v_held       bigint[];
    v_events     integer;
    v_max        integer;
    v_left       integer := p_max;
    v_claimed    integer[] := '{}';
    v_is_last    boolean;
    v_is_locked  boolean := false;
    v_is_lost    boolean;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    select c.topic_id, t.topic, headrace_internal.consumer_bound(p_consumer_id, c.topic_id) as bound, c.filter,
        format('headrace_internal.%I', 'log_' || c.topic_id) as branch, headrace_internal.log_is_small() as is_small,
        (c.session_limit_s * 1000)::integer::text as session_limit_ms,
        c.when_exhausted = 'dead_letter' and c.key_order = 'hold' and exists (select from headrace_internal.dead_letter d
            where d.consumer_id = p_consumer_id and d.state in ('dead', 'behind', 'redrive')) as holds
    into v_consumer
    from headrace_internal.consumer c join headrace_internal.topic t on t.topic_id = c.topic_id
    where c.consumer_id = p_consumer_id and not exists (select from headrace_internal.pause p where p.consumer_id = p_consumer_id)
        -- A condition that is not compiled yet, or cannot be, stops its consumer.
        and (c.condition is null or c.filter is not null);
    if not found then
        return;
    end if;
    if v_consumer.is_small then
        open v_candidates for
        select c.partition, c.position, c.written_by, c.is_alone, (select k.xmax from headrace_internal.claim k
            where k.consumer_id = p_consumer_id and k.partition = c.partition) as claimed_by
        from (
            select c.partition, c.position, c.xmin as written_by, coalesce(c.lost_at = c.position, false) as is_alone, case when c.single_to > c.position then 1 else least(p_min, p_max) end as events_min
            from headrace_internal.cursor c
            where c.consumer_id = p_consumer_id and c.state = 'running' and (c.retry_at is null or c.retry_at <= headrace.clock())
            order by c.moved_at offset 0) c
        cross join lateral (
            select count(*) as events, min(e.appended_at) as oldest_at
            from (
                select l.appended_at from headrace_internal.log l
                where l.topic_id = v_consumer.topic_id and l.partition <= c.partition
                    and (l.partition, l.position) > (c.partition, c.position) and l.position <= v_consumer.bound
                order by l.partition, l.position limit c.events_min) e) d
        where c.partition < 0 or d.events >= c.events_min or d.oldest_at <= headrace.clock() - make_interval(secs => p_wait_s);
    else
        open v_candidates for execute format(
        'select c.partition, c.position, c.written_by, c.is_alone, (select k.xmax from headrace_internal.claim k '
        'where k.consumer_id = $1 and k.partition = c.partition) as claimed_by from ('
        'select c.partition, c.position, c.xmin as written_by, coalesce(c.lost_at = c.position, false) as is_alone, case when c.single_to > c.position then 1 else $2 end as events_min '
        'from headrace_internal.cursor c '
        'where c.consumer_id = $1 and c.state = ''running'' and (c.retry_at is null or c.retry_at <= headrace.clock()) '
        'order by c.moved_at offset 0) c '
        'cross join lateral (select count(*) as events, min(e.appended_at) as oldest_at from ('
        'select l.appended_at from %s l '
        'where l.partition <= c.partition and (l.partition, l.position) > (c.partition, c.position) and l.position <= $3 '
        'order by l.partition, l.position limit c.events_min) e) d '
        'where c.partition < 0 or d.events >= c.events_min or d.oldest_at <= headrace.clock() - make_interval(secs => $4)',
            v_consumer.branch) using p_consumer_id, least(p_min, p_max), v_consumer.bound, p_wait_s;
    end if;
    loop
        fetch v_candidates into v_next;
        exit when not found;
        continue when p_alone and not v_next.is_alone;
        if v_next.is_alone and not p_alone then
            payload := '{"events": 0, "partial": false, "alone": true}';
            return next;
            continue;
        end if;
        v_is_lost := headrace_internal.is_claim_lost(v_next.claimed_by, v_next.written_by);
        if v_is_lost and v_claimed <> '{}' then
            -- Not in the transaction of a handler.
            payload := '{"events": 0, "partial": true}';
            return next;
            continue;
        end if;
        select c.partition, c.position, c.attempts, c.single_to > c.position as is_single into v_cursor
        from headrace_internal.cursor c
        where c.consumer_id = p_consumer_id and c.partition = v_next.partition
            and c.state = 'running' and (c.retry_at is null or c.retry_at <= headrace.clock())
        for no key update skip locked;
        if not found then
            v_is_locked := true;
            continue;
        end if;
        -- Looked at again where it was lost a moment ago: another session may have claimed and ended since.
        if v_is_lost and headrace_internal.count_lost_claim(
                p_consumer_id, v_cursor.partition, v_cursor.position, v_cursor.is_single, p_max) then
            payload := '{"events": 0, "partial": true}';
            return next;
            return;
        end if;
        if v_claimed <> '{}' and v_cursor.is_single then
            payload := '{"events": 0, "partial": true}';
            return next;
            continue;
        end if;
        v_max := case when v_cursor.is_single then 1 else v_left end;
        v_upto := null;
        v_has_more := false;
        if v_consumer.filter is not null then
            v_matches := headrace_internal.find_matches(p_consumer_id, v_consumer.topic_id, v_cursor.partition, v_cursor.position,
                v_consumer.filter, case when v_cursor.is_single then 1 else least(p_min, v_max) end, p_wait_s);
            v_upto := v_matches.upto;
            v_has_more := v_matches.has_more;
            if not v_matches.has_matches then
                if v_upto > v_cursor.position then
                    perform headrace.advance(p_consumer_id, v_cursor.partition, v_upto);
                end if;
                if v_has_more then
                    payload := '{"events": 0, "partial": true}';
                    return next;
                end if;
                continue;
            end if;
        else
            -- Checked again where the events are others than those seen above: another worker has moved the cursor meanwhile.
            continue when p_min > 1 and not v_cursor.is_single and (v_cursor.partition < 0 or v_cursor.position > v_next.position)
                and not headrace_internal.has_batch(
                    v_consumer.topic_id, v_cursor.partition, v_cursor.position, least(p_min, v_max), p_wait_s);
        end if;
        v_held := null;
        if v_consumer.holds then
            -- What is appended from here on is not checked, so it must not be read either.
            v_upto := coalesce(v_upto, (select b.upto from headrace_internal.batch_end(
                p_consumer_id, v_consumer.topic_id, v_cursor.partition, v_cursor.position, v_max) b));
            continue when v_upto is null;
            v_held := headrace_internal.hold_back_batch(p_consumer_id, v_cursor.partition, v_cursor.position, v_upto);
        end if;
        if v_consumer.is_small and v_consumer.filter is null and v_cursor.partition < 0 then
            return query
            select l.position, l.partition, l.event_id, v_consumer.topic, l.type, l.key, l.payload, l.headers, l.emitted_at,
                l.appended_at, l.producer
            from headrace_internal.log l
            where l.topic_id = v_consumer.topic_id and l.position > v_cursor.position
                and l.position <= coalesce(v_upto, 9223372036854775807)
            order by l.position limit v_max;
        elsif v_consumer.is_small and v_consumer.filter is null then
            return query
            select l.position, l.partition, l.event_id, v_consumer.topic, l.type, l.key, l.payload, l.headers, l.emitted_at,
                l.appended_at, l.producer
            from headrace_internal.log l
            where l.topic_id = v_consumer.topic_id and l.partition <= v_cursor.partition
                and (l.partition, l.position) > (v_cursor.partition, v_cursor.position)
                and l.position <= (select headrace_internal.consumer_bound(p_consumer_id, v_consumer.topic_id))
                and l.position <= coalesce(v_upto, 9223372036854775807)
            order by l.partition, l.position limit v_max;
        else
            return query execute format(
            'select l.position, l.partition, l.event_id, $1, l.type, l.key, l.payload, l.headers, l.emitted_at, l.appended_at, l.producer '
            'from %s l where %s%s limit $2', v_consumer.branch, '(' || v_consumer.filter || ') and ',
            case when v_cursor.partition < 0 then 'l.position > $4 and l.position <= coalesce($5, 9223372036854775807) order by l.position'
                else 'l.partition <= $3 and (l.partition, l.position) > ($3, $4) '
                    'and l.position <= coalesce($5, (select headrace_internal.consumer_bound($6, $7))) order by l.partition, l.position' end)
            using v_consumer.topic, v_max, v_cursor.partition, v_cursor.position, v_upto, p_consumer_id, v_consumer.topic_id;
        end if;
        get diagnostics v_events = row_count;
        continue when v_events = 0;
        v_claimed := v_claimed || v_cursor.partition;
        v_left := v_left - v_events;
        v_is_last := cardinality(v_claimed) = p_partitions or v_left < p_min or v_cursor.is_single;
        position := v_cursor.position;
        partition := v_cursor.partition;
        payload := jsonb_build_object(
            'events', v_events, 'attempts', v_cursor.attempts, 'held', to_jsonb(v_held), 'partial', v_is_last or v_has_more,
            'upto', case when v_consumer.filter is not null and v_events < v_max then v_upto end);
        return next;
        exit when v_is_last;
    end loop;
    close v_candidates;
    if v_claimed <> '{}' then
        perform set_config('idle_in_transaction_session_timeout', v_consumer.session_limit_ms, true);
        -- Not again where this transaction has locked it in another savepoint (age 0 or less): two lockers make xmax the id of a list of transactions,
        -- which cannot be told from that of a transaction.
        perform from headrace_internal.claim k
        where k.consumer_id = p_consumer_id and k.partition = any (v_claimed)
            and (age(k.xmax) > 0 or headrace_internal.transaction_status(k.xmax) in ('committed', 'aborted'))
        for no key update;
    elsif v_is_locked then
        position := null;
        partition := null;
        payload := '{"events": 0, "partial": false, "locked": true}';
        return next;
    end if;
end
$$;
