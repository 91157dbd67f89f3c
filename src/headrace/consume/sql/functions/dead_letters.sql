-- Moves events of a claimed batch to the dead letters ('behind') whose key has an earlier dead letter, so that the key keeps its
-- order; returns how many. Only for consumers with key_order 'hold', and only events for which the consumer's condition is true.
-- Locks: earlier letters of these keys, key share: the end of their redrive, or a discard, waits for this batch, so that it finds what was
-- held back here. The events, for share, nowait: an erasure that is under way raises 55P03, and one that comes waits, so that it finds
-- them. Index: dead_letter_held, log_partition.
-- It names the topic's own branch, see headrace_internal.next_position.
create or replace function headrace.hold_back(
    p_consumer_id bigint, p_partition integer, p_position bigint, p_upto bigint, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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

-- Holds back what headrace.hold_back finds among the events after a claimed cursor up to p_upto, and returns which of these events are
-- dead letters or wait behind one; null if none is.
-- Locks: see headrace.hold_back. Index: dead_letter_once.
-- Calls: hold_back.
create or replace function headrace_internal.hold_back_batch(
    p_consumer_id bigint, p_partition integer, p_position bigint, p_upto bigint
) returns bigint[]
language plpgsql volatile
as $$
begin
    perform headrace.hold_back(p_consumer_id, p_partition, p_position, p_upto);
    return (
        select array_agg(d.position) from headrace_internal.dead_letter d
        where d.consumer_id = p_consumer_id and d.position > p_position and d.position <= p_upto
            and d.state in ('dead', 'behind', 'redrive'));
end
$$;

-- Marks for a redrive the events of these keys of a consumer that wait behind a dead letter which has ended; those behind another one
-- that is still dead go on waiting. The caller holds the ended letters for update: so batches that were in flight and have held events
-- back behind them (headrace.hold_back) have committed, and these events are seen here. Index: dead_letter_held.
create or replace function headrace_internal.release_behind(p_consumer_id bigint, p_keys text[]) returns void
language sql volatile
as $$
    update headrace_internal.dead_letter b set state = 'redrive'
    where b.consumer_id = p_consumer_id and b.key = any (p_keys) and b.state = 'behind'
        and not exists (select from headrace_internal.dead_letter e
            where e.consumer_id = p_consumer_id and e.key = b.key and e.state = 'dead' and e.position < b.position)
$$;

-- Ends a redrive: handled (p_error is null), and the events behind it follow, also those that a batch in flight held back after the
-- redrive was asked for; discarded by the handler (p_discard), and they follow too; or dead again together with the events that wait
-- behind it. The error is recorded
-- after the handler's transaction was rolled back, so a letter that another node has ended meanwhile is left alone.
-- Locks: the letter, for update, and the letters behind it. Index: dead_letter_held.
-- Calls: release_behind.
create or replace function headrace.end_redrive(
    p_dead_letter_id bigint, p_error text, p_traceback text default null, p_discard boolean default false,
    p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'dead letter', p_dead_letter_id);
    if p_error is null or p_discard then
        -- Waits for batches of other partitions that hold events back behind this letter; see headrace.hold_back.
        perform from headrace_internal.dead_letter d where d.dead_letter_id = p_dead_letter_id for update;
        update headrace_internal.dead_letter d
        set state = case when p_discard then 'discarded' else 'redriven' end, ended_at = headrace.clock(), attempts = d.attempts + 1,
            reason = case when p_discard then 'handler discarded it' else d.reason end,
            error = coalesce(left(p_error, 2000), d.error), traceback = coalesce(left(p_traceback, 20000), d.traceback)
        where d.dead_letter_id = p_dead_letter_id and (not p_discard or d.state = 'redrive');
        perform headrace_internal.release_behind(d.consumer_id, array[d.key])
        from headrace_internal.dead_letter d where d.dead_letter_id = p_dead_letter_id;
        return;
    end if;
    update headrace_internal.dead_letter d
    set state = 'dead', reason = 'handler failed again', error = left(p_error, 2000), traceback = left(p_traceback, 20000),
        attempts = d.attempts + 1
    where d.dead_letter_id = p_dead_letter_id and d.state = 'redrive';
    if not found then
        return;
    end if;
    update headrace_internal.dead_letter b set state = 'behind'
    from headrace_internal.dead_letter d
    where d.dead_letter_id = p_dead_letter_id and b.consumer_id = d.consumer_id and b.key = d.key
        and b.position > d.position and b.state = 'redrive';
end
$$;

-- Claims the oldest dead letter marked for a redrive whose key has no older one, together with the cursor of its partition.
-- A letter after the cursor waits until the cursor has passed it: otherwise its event would be handled twice.
-- If the last claim of that partition was lost with its session, see headrace.claim_events, this one only records that, and claims
-- nothing: commit, and claim again. A letter whose redrive was lost is dead again.
-- Locks: the cursor row of the partition, skip locked, so that the key keeps its order; the letter, which another node may have
-- ended a moment ago; and the partition's row of headrace_internal.claim. Index: dead_letter_redrive.
-- Calls: count_lost_claim, transaction_status.
create or replace function headrace.claim_redrive(p_consumer_id bigint, p_caller headrace_internal.caller default current_user)
returns table (dead_letter_id bigint, partition integer, "position" bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    -- After a lost batch, so many events at most are handled one by one: its size is not known here.
    c_batch_max constant integer := 1000;
    -- A cursor and not a query in the loop, which would lock the partitions of ten letters at once.
    v_letters   refcursor;
    v_letter    record;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'consumer', p_consumer_id);
    open v_letters for
    select d.dead_letter_id, d.partition, d.position, c.position as cursor_position, c.single_to > c.position as is_single,
        (k.session_limit_s * 1000)::integer::text as session_limit_ms
    from headrace_internal.dead_letter d
    join headrace_internal.cursor c on c.consumer_id = d.consumer_id and c.partition = d.partition
    join headrace_internal.consumer k on k.consumer_id = d.consumer_id
    where d.consumer_id = p_consumer_id and d.state = 'redrive' and d.position <= c.position
        and not exists (select from headrace_internal.pause p where p.consumer_id = p_consumer_id)
        and not exists (select from headrace_internal.dead_letter e
            where e.consumer_id = d.consumer_id and e.key = d.key and e.position < d.position
                and e.state in ('dead', 'behind', 'redrive'))
    order by d.position
    for no key update of c skip locked;
    loop
        fetch v_letters into v_letter;
        exit when not found;
        -- Before the letter is locked: it still shows the transaction that has locked it last.
        exit when headrace_internal.count_lost_claim(
            p_consumer_id, v_letter.partition, v_letter.cursor_position, v_letter.is_single, c_batch_max);
        perform from headrace_internal.dead_letter d
        where d.dead_letter_id = v_letter.dead_letter_id and d.state = 'redrive' for no key update skip locked;
        if found then
            perform set_config('idle_in_transaction_session_timeout', v_letter.session_limit_ms, true);
            perform from headrace_internal.claim k
            where k.consumer_id = p_consumer_id and k.partition = v_letter.partition
                -- As in headrace.claim_events.
                and (age(k.xmax) > 0 or headrace_internal.transaction_status(k.xmax) in ('committed', 'aborted'))
            for no key update;
            return query select v_letter.dead_letter_id, v_letter.partition, v_letter.position;
            exit;
        end if;
    end loop;
    close v_letters;
end
$$;

-- The event of a dead letter as its handler gets it again: with the payload as it was edited. What the log has dropped comes from the
-- letter. Index: dead_letter_pkey; log_position of the topic's own branch, see headrace_internal.next_position.
create or replace function headrace.redriven_event(p_dead_letter_id bigint, p_caller headrace_internal.caller default current_user)
returns setof headrace.logged_event
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_letter record;
    v_event  headrace.logged_event;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'dead letter', p_dead_letter_id);
    select d.position, d.partition, d.event_id, t.topic_id, t.topic, d.type, d.key, coalesce(d.edited_payload, d.payload) as payload,
        d.headers, d.buried_at
    into v_letter
    from headrace_internal.dead_letter d
    join headrace_internal.consumer c on c.consumer_id = d.consumer_id
    join headrace_internal.topic t on t.topic_id = c.topic_id
    where d.dead_letter_id = p_dead_letter_id;
    if not found then
        return;
    end if;
    execute format('select $1, l.* from headrace_internal.%I l where l.position = $2', 'log_' || v_letter.topic_id)
    into v_event using v_letter.topic, v_letter.position;
    v_event := jsonb_populate_record(v_event, to_jsonb(v_letter));
    v_event.emitted_at := coalesce(v_event.emitted_at, v_letter.buried_at);
    v_event.appended_at := coalesce(v_event.appended_at, v_letter.buried_at);
    return next v_event;
end
$$;

-- Marks dead letters of a consumer to be handled again: all, or one position; the events behind them follow in order. Returns how
-- many.
-- Calls: consumer_id, notify.
create or replace function headrace.redrive(
    p_topic text, p_consumer text, p_position bigint default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
    v_consumer_id bigint := headrace_internal.consumer_id(p_topic, p_consumer, v_namespace);
    v_count       integer;
begin
    update headrace_internal.dead_letter d set state = 'redrive'
    where d.consumer_id = v_consumer_id and d.state in ('dead', 'behind')
        and (p_position is null or d.position = p_position
            or (d.state = 'behind' and d.key = (select k.key from headrace_internal.dead_letter k
                where k.consumer_id = v_consumer_id and k.position = p_position)));
    get diagnostics v_count = row_count;
    perform headrace_internal.notify('headrace_log', (select c.topic_id::text from headrace_internal.consumer c where c.consumer_id = v_consumer_id));
    return v_count;
end
$$;

-- Discards dead letters of a consumer: all, or one position. They are kept with the state 'discarded', and the events that wait behind
-- them are handled, in order. Returns how many were discarded.
-- Locks: the letters, for update, in the order of their positions: it waits for batches that hold events back behind them. Index:
-- dead_letter_held.
-- Calls: consumer_id, release_behind, notify.
create or replace function headrace.discard(
    p_topic text, p_consumer text, p_position bigint default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
    v_consumer_id bigint := headrace_internal.consumer_id(p_topic, p_consumer, v_namespace);
    v_letters     bigint[];
    v_keys        text[];
    v_count       integer;
begin
    select array_agg(d.dead_letter_id) into v_letters
    from (
        select d.dead_letter_id from headrace_internal.dead_letter d
        where d.consumer_id = v_consumer_id and d.state in ('dead', 'behind', 'redrive')
            and (p_position is null or d.position = p_position)
        order by d.position for update) d;
    with discarded as (
        update headrace_internal.dead_letter d set state = 'discarded', ended_at = headrace.clock()
        where d.dead_letter_id = any (v_letters) and d.state in ('dead', 'behind', 'redrive')
        returning d.key)
    select count(*), array_agg(distinct d.key) into v_count, v_keys from discarded d;
    if v_count > 0 then
        perform headrace_internal.release_behind(v_consumer_id, v_keys);
        perform headrace_internal.notify('headrace_log', (select c.topic_id::text from headrace_internal.consumer c where c.consumer_id = v_consumer_id));
    end if;
    return v_count;
end
$$;

-- Changes the payload with which a redrive gives a dead event of a consumer to its handler. The log never changes, and the original
-- payload stays in the dead letter. Null restores it. Raises HR103 if there is no open dead letter at this position.
-- Locks: the letter. Index: dead_letter_once.
-- Calls: consumer_id, event_within_limits.
create or replace function headrace.edit_dead_event(
    p_topic text, p_consumer text, p_position bigint, p_payload jsonb, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace   text := headrace_internal.authorize(p_caller, 'consume', p_namespace, p_topic);
    v_consumer_id bigint := headrace_internal.consumer_id(p_topic, p_consumer, v_namespace);
begin
    if p_payload is not null then
        perform headrace.event_within_limits('edited', null, p_payload, '{}');
    end if;
    update headrace_internal.dead_letter d set edited_payload = p_payload
    where d.consumer_id = v_consumer_id and d.position = p_position and d.state in ('dead', 'behind', 'redrive');
    if not found then
        raise exception 'consumer "%" of topic "%" has no open dead letter at position %', p_consumer, p_topic, p_position
            using errcode = 'HR103', hint = 'See: select position, type, key, error from headrace.event_dead_letter where state = ''dead''.';
    end if;
end
$$;
