-- Moves a claimed cursor: everything up to and including the position is handled. In the handler's own transaction.
create or replace function headrace.advance(
    p_consumer_id bigint, p_partition integer, p_position bigint, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    update headrace_internal.cursor c
    set position = p_position, attempts = 0, retry_at = null, error = null, traceback = null, moved_at = headrace.clock()
    where c.consumer_id = p_consumer_id and c.partition = p_partition;
end
$$;

-- Moves claimed cursors, like headrace.advance: the position of each partition is the last that is handled. In the handler's own
-- transaction. Locks: the cursor rows, which the caller has claimed. Index: cursor_pkey.
create or replace function headrace.advance_partitions(
    p_consumer_id bigint, p_partitions integer[], p_positions bigint[], p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    for i in 1 .. cardinality(p_partitions) loop
        update headrace_internal.cursor c
        set position = p_positions[i], attempts = 0, retry_at = null, error = null, traceback = null, moved_at = headrace.clock()
        where c.consumer_id = p_consumer_id and c.partition = p_partitions[i];
    end loop;
end
$$;

-- Records that the handler failed on the batch right after the cursor, applies the consumer's policy, and returns what follows:
-- 'single'  a batch of several events: they are handled one by one from now on, to find the failing one;
-- 'retry'   the event is tried again after a growing pause with jitter;
-- 'dead_letter'  the event was moved to the dead letters and the cursor has passed it;
-- 'stopped' the partition waits for `headrace consumer resume`;
-- 'discarded'  the handler gave the event up: it is kept among the ended dead letters, and the cursor has passed it.
-- The handler may choose for a single event: p_verdict 'bury', 'discard' or 'retry', whatever the policy says; 'refuse', after which no
-- attempt is left; or p_after_s, the pause before the next attempt. 'skip' is headrace.skip_event's: no attempt was made.
-- An event that was erased meanwhile is passed ('discarded'), and no error text that may quote it is kept.
-- Locks: the cursor row, and the events, see headrace_internal.erased_meanwhile. Index: log_position. Call it in the transaction that holds the claim, after a rollback to a savepoint before
-- the handler: so no other worker repeats the batch before the failure is recorded. If that transaction is gone, call it in one of
-- its own, with the attempts at the claim (p_attempts). Null, and nothing changes, if the cursor has moved meanwhile (p_position
-- differs), or another session has recorded a failure (p_attempts differs): another node goes on.
-- Calls: erased_meanwhile, advance.
create or replace function headrace.fail(
    p_consumer_id bigint,
    p_partition   integer,
    p_position    bigint,
    p_upto        bigint,
    p_events      integer,
    p_error       text,
    p_traceback   text default null,
    p_verdict     text default null,
    p_after_s     double precision default null,
    p_attempts    integer default null,
    p_caller      headrace_internal.caller default current_user
) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_policy   record;
    v_attempts integer;
    v_event    record;
    v_erased   record;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    select c.topic_id, c.attempts_max, c.backoff_s, c.backoff_max_s, c.when_exhausted, c.key_order into v_policy
    from headrace_internal.consumer c where c.consumer_id = p_consumer_id;
    update headrace_internal.cursor c
    set attempts = least(c.attempts, 1000000) + 1, error = left(p_error, 2000), traceback = left(p_traceback, 20000),
        moved_at = headrace.clock()
    where c.consumer_id = p_consumer_id and c.partition = p_partition and c.position = p_position
        and c.attempts = coalesce(p_attempts, c.attempts)
    returning c.attempts into v_attempts;
    if v_attempts is null then
        return null;
    end if;
    -- After the cursor is locked: whoever waits for it holds no event.
    v_erased := headrace_internal.erased_meanwhile(
        v_policy.topic_id, p_partition, case when p_events > 1 then p_position end, p_upto);
    if v_erased.is_quoted then
        p_error := '(erased)';
        p_traceback := null;
        update headrace_internal.cursor c set error = p_error, traceback = null
        where c.consumer_id = p_consumer_id and c.partition = p_partition;
    end if;
    if p_events > 1 then
        update headrace_internal.cursor c set single_to = p_upto, attempts = 0
        where c.consumer_id = p_consumer_id and c.partition = p_partition;
        return 'single';
    end if;
    if v_erased.is_gone then
        perform headrace.advance(p_consumer_id, p_partition, p_upto);
        return 'discarded';
    end if;
    if p_verdict = 'retry' or (p_verdict is null and (v_policy.attempts_max is null or v_attempts < v_policy.attempts_max)) then
        update headrace_internal.cursor c
        set retry_at = headrace.clock() + make_interval(secs => coalesce(p_after_s, (0.5 + random() / 2)
            * least(v_policy.backoff_max_s, v_policy.backoff_s * 2 ^ least(v_attempts - 1, 30))))
        where c.consumer_id = p_consumer_id and c.partition = p_partition;
        return 'retry';
    end if;
    if coalesce(p_verdict, 'refuse') = 'refuse' and v_policy.when_exhausted = 'stop' then
        update headrace_internal.cursor c set state = 'stopped' where c.consumer_id = p_consumer_id and c.partition = p_partition;
        return 'stopped';
    end if;
    -- Queries the topic's own branch: a query on the whole log plans and locks every topic.
    execute format('select l.position, l.event_id, l.type, l.key, l.payload, l.headers from headrace_internal.%I l where l.position = $1',
        'log_' || v_policy.topic_id) into v_event using p_upto;
    insert into headrace_internal.dead_letter
        (consumer_id, partition, position, event_id, type, key, payload, headers, state, reason, error, traceback, attempts, ended_at)
    select p_consumer_id, p_partition, v_event.position, v_event.event_id, v_event.type, v_event.key, v_event.payload, v_event.headers,
        case p_verdict when 'discard' then 'discarded' else 'dead' end,
        case p_verdict when 'discard' then 'handler discarded it' when 'bury' then 'handler buried it' when 'refuse' then 'target refused it'
            when 'skip' then 'an operator skipped it' else 'handler failed' end,
        left(p_error, 2000), left(p_traceback, 20000), v_attempts - (p_verdict is not distinct from 'skip')::integer, case p_verdict when 'discard' then headrace.clock() end
    where v_event.position is not null
    on conflict on constraint dead_letter_once do update
    set state = excluded.state, reason = excluded.reason, error = excluded.error, traceback = excluded.traceback,
        attempts = excluded.attempts, ended_at = excluded.ended_at;
    perform headrace.advance(p_consumer_id, p_partition, p_upto);
    return case p_verdict when 'discard' then 'discarded' else 'dead_letter' end;
end
$$;

-- Records that the transaction of the last claim of a cursor was lost: its process was killed, hung for too long, or lost its connection.
-- If it was a redrive, the dead letter is dead again. Else the first time its batch is handled event by event from now on; nobody knows
-- which event did it. Then a claim of a single event that is lost is a failed attempt of that event. It may have been lost with another
-- one, so the next attempt is made alone on its node, and only after that the policy of the consumer decides. See headrace.fail. False, and nothing changes, if the claim was not lost; see headrace_internal.is_claim_lost.
-- Call it while the cursor is locked, and commit before the next claim. Locks: the cursor row, and the letter. Indexes: log_partition,
-- log_position, dead_letter_redrive.
-- Calls: is_claim_lost, end_redrive, fail.
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
    select c.topic_id, coalesce(c.filter, 'true') as filter, c.attempts_max into v_consumer
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
        -- Not blamed yet: this loss leaves an attempt for the one that is made alone, so that no event has more attempts than its policy allows.
        update headrace_internal.cursor c
        set lost_at = p_position,
            attempts = case when v_claim.is_alone then c.attempts else least(c.attempts, coalesce(v_consumer.attempts_max - 1, c.attempts)) end
        where c.consumer_id = p_consumer_id and c.partition = p_partition and c.position = p_position and p_is_single;
    end if;
    return true;
end
$$;

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
-- Calls: consumer_bound, log_is_small, is_claim_lost, count_lost_claim, find_matches, advance, has_batch, batch_end,
-- hold_back_batch, transaction_status.
create or replace function headrace.claim_events(
    p_consumer_id bigint,
    p_max         integer,
    p_min         integer default 1,
    p_wait_s      double precision default 0,
    p_partitions  integer default 1,
    p_alone       boolean default null,
    p_caller      headrace_internal.caller default current_user
) returns setof headrace.logged_event
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
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
    -- A row of a claim, which has no event.
    v_claim      headrace.logged_event;
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
            v_claim.payload := '{"events": 0, "partial": false, "alone": true}';
            return next v_claim;
            continue;
        end if;
        v_is_lost := headrace_internal.is_claim_lost(v_next.claimed_by, v_next.written_by);
        if v_is_lost and v_claimed <> '{}' then
            -- Not in the transaction of a handler.
            v_claim.payload := '{"events": 0, "partial": true}';
            return next v_claim;
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
            v_claim.payload := '{"events": 0, "partial": true}';
            return next v_claim;
            return;
        end if;
        if v_claimed <> '{}' and v_cursor.is_single then
            v_claim.payload := '{"events": 0, "partial": true}';
            return next v_claim;
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
                    v_claim.payload := '{"events": 0, "partial": true}';
                    return next v_claim;
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
            select v_consumer.topic, l.*
            from headrace_internal.log l
            where l.topic_id = v_consumer.topic_id and l.position > v_cursor.position
                and l.position <= coalesce(v_upto, 9223372036854775807)
            order by l.position limit v_max;
        elsif v_consumer.is_small and v_consumer.filter is null then
            return query
            select v_consumer.topic, l.*
            from headrace_internal.log l
            where l.topic_id = v_consumer.topic_id and l.partition <= v_cursor.partition
                and (l.partition, l.position) > (v_cursor.partition, v_cursor.position)
                and l.position <= (select headrace_internal.consumer_bound(p_consumer_id, v_consumer.topic_id))
                and l.position <= coalesce(v_upto, 9223372036854775807)
            order by l.partition, l.position limit v_max;
        else
            return query execute format(
            'select $1, l.* from %s l where %s%s limit $2', v_consumer.branch, '(' || v_consumer.filter || ') and ',
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
        v_claim.position := v_cursor.position;
        v_claim.partition := v_cursor.partition;
        v_claim.payload := jsonb_build_object(
            'events', v_events, 'attempts', v_cursor.attempts, 'held', to_jsonb(v_held), 'partial', v_is_last or v_has_more,
            'upto', case when v_consumer.filter is not null and v_events < v_max then v_upto end);
        return next v_claim;
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
        v_claim.payload := '{"events": 0, "partial": false, "locked": true}';
        return next v_claim;
    end if;
end
$$;

-- Claims those of some partitions of a consumer whose cursors stand exactly at the given positions, for a node that has the events behind
-- these in hand. A row without an event for each that is claimed, with its partition and position, as headrace.claim_events has it. The
-- events came from headrace_internal.sequence_step: the positions are the newest that the partitions had before (-1: the topic),
-- p_erasures and p_server are what that step has returned. So a cursor that another worker has moved, events that were erased meanwhile,
-- and a server that has taken over claim nothing; nor does what takes more than to hand the events over: a failed attempt, a lost session,
-- events that are handled one by one, keys that are held back, a border, a pause. headrace.claim_events does all of these. The claim is the
-- same, and lasts as long.
-- The cursors are locked before the rest is looked at: whoever held one of them may have left a dead letter or a border behind.
-- Locks: cursor rows and their rows of headrace_internal.claim, no key update, skip locked. Indexes: cursor_pkey, claim_pkey,
-- dead_letter_held, topic_border_pkey.
-- Calls: is_claim_lost.
create or replace function headrace.claim_at(
    p_consumer_id bigint,
    p_partitions  integer[],
    p_positions   bigint[],
    p_erasures    integer,
    p_server      timestamptz,
    p_caller      headrace_internal.caller default current_user
) returns setof headrace.logged_event
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
    v_locked   integer[];
    v_limit_ms text;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    v_locked := array(
        select u.partition
        from unnest(p_partitions, p_positions) p (partition, position)
        join headrace_internal.cursor u on u.consumer_id = p_consumer_id and u.partition = p.partition
        where u.position = p.position and u.state = 'running' and u.attempts = 0 and u.retry_at is null and u.single_to <= u.position
            and u.lost_at is distinct from u.position
        for no key update of u skip locked);
    select (c.session_limit_s * 1000)::integer::text into v_limit_ms
    from headrace_internal.consumer c
    join headrace_internal.topic t on t.topic_id = c.topic_id
    where v_locked <> '{}' and c.consumer_id = p_consumer_id
        and t.erasures = p_erasures and p_server = pg_postmaster_start_time() and c.condition is null
        and not exists (select from headrace_internal.pause p where p.consumer_id = p_consumer_id)
        and not exists (select from headrace_internal.topic_border b where b.topic_id = c.topic_id and b.position > 0)
        and not (c.key_order = 'hold' and exists (select from headrace_internal.dead_letter d
            where d.consumer_id = p_consumer_id and d.state in ('dead', 'behind', 'redrive')));
    if not found then
        return;
    end if;
    return query
        select null::text, u.position, null::timestamptz, null::timestamptz, null::integer, u.partition, null::uuid, null::text, null::text,
            null::jsonb, null::jsonb, null::text
        from headrace_internal.cursor u
        join headrace_internal.claim k on k.consumer_id = u.consumer_id and k.partition = u.partition
        where u.consumer_id = p_consumer_id and u.partition = any (v_locked) and not headrace_internal.is_claim_lost(k.xmax, u.xmin)
        for no key update of k skip locked;
    if found then
        perform set_config('idle_in_transaction_session_timeout', v_limit_ms, true);
    end if;
end
$$;

-- Claims partitions of a consumer like headrace.claim_events, and returns only which events: those after "position" up to "upto". They
-- can be read from headrace.log. Raises HR300 for a consumer with a condition: headrace.claim_events gives only the events that match.
-- Calls: claim_events.
create or replace function headrace.claim(
    p_consumer_id bigint,
    p_max         integer,
    p_min         integer default 1,
    p_wait_s      double precision default 0,
    p_partitions  integer default 1,
    p_caller      headrace_internal.caller default current_user
) returns table (partition integer, "position" bigint, upto bigint, events integer, attempts integer)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    if exists (select from headrace_internal.consumer c where c.consumer_id = p_consumer_id and c.condition is not null) then
        raise exception 'consumer % has a condition, and headrace.claim cannot say which events match', p_consumer_id
            using errcode = 'HR300', hint = 'Use headrace.claim_events.';
    end if;
    return query
    select c.partition, c.position, c.upto, (c.payload ->> 'events')::integer, (c.payload ->> 'attempts')::integer
    from (
        select e.partition, e.position, e.event_id, e.payload, lag(e.position) over (order by e.ordinality) as upto
        from headrace.claim_events(p_consumer_id, p_max, p_min, p_wait_s, p_partitions) with ordinality e
    ) c
    where c.event_id is null and c.payload ->> 'events' <> '0';
end
$$;
