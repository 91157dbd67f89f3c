-- Puts an event of the log aside as a dead letter of a consumer. Index: log_position.
create or replace function headrace.bury(
    p_consumer_id integer,
    p_partition   integer,
    p_position    bigint,
    p_state       text,
    p_reason      text,
    p_error       text,
    p_attempts    integer
) returns void
language sql volatile
as $$
    insert into headrace.dead_letter
        (consumer_id, partition, position, event_id, type, key, payload, headers, state, reason, error, attempts)
    select p_consumer_id, p_partition, l.position, l.event_id, l.type, l.key, l.payload, l.headers,
        p_state, p_reason, left(p_error, 10000), p_attempts
    from headrace.consumer c
    join headrace.log l on l.topic_id = c.topic_id and l.position = p_position
    where c.consumer_id = p_consumer_id
    on conflict on constraint dead_letter_once do update
    set state = excluded.state, reason = excluded.reason, error = excluded.error, attempts = excluded.attempts, ended_at = null
$$;

-- Events of a claimed batch whose key has a dead letter before them: puts them aside as well ('behind'), so that the key's
-- order is not lost silently, and returns how many. Only where the consumer's key_order is 'hold'.
-- Index: dead_letter_held, log_partition.
create or replace function headrace.hold_back(p_consumer_id integer, p_partition integer, p_position bigint, p_upto bigint)
returns integer
language plpgsql volatile
as $$
declare
    v_topic_id integer;
    v_held     integer;
begin
    select c.topic_id into v_topic_id
    from headrace.consumer c
    where c.consumer_id = p_consumer_id and c.key_order = 'hold'
        and exists (select from headrace.dead_letter d
            where d.consumer_id = p_consumer_id and d.state in ('dead', 'behind', 'redrive'));
    if v_topic_id is null then
        return 0;
    end if;
    insert into headrace.dead_letter
        (consumer_id, partition, position, event_id, type, key, payload, headers, state, reason, attempts)
    select p_consumer_id, p_partition, l.position, l.event_id, l.type, l.key, l.payload, l.headers,
        'behind', 'an earlier event of its key is a dead letter', 0
    from headrace.log l
    where l.topic_id = v_topic_id and (p_partition = -1 or l.partition = p_partition)
        and l.position > p_position and l.position <= p_upto
        and exists (select from headrace.dead_letter d
            where d.consumer_id = p_consumer_id and d.key = l.key and d.state in ('dead', 'behind', 'redrive')
                and d.position < l.position)
    on conflict on constraint dead_letter_once do nothing;
    get diagnostics v_held = row_count;
    return v_held;
end
$$;

-- Marks dead letters of a consumer for another try: all, or one position; what waits behind them follows in order. Returns how many.
create or replace function headrace.redrive(
    p_topic text, p_consumer text, p_position bigint default null, p_namespace text default null
) returns integer
language plpgsql volatile
as $$
declare
    v_consumer_id integer := headrace.consumer_id(p_topic, p_consumer, p_namespace);
    v_count       integer;
begin
    update headrace.dead_letter d set state = 'redrive'
    where d.consumer_id = v_consumer_id and d.state in ('dead', 'behind')
        and (p_position is null or d.position = p_position
            or (d.state = 'behind' and d.key = (select k.key from headrace.dead_letter k
                where k.consumer_id = v_consumer_id and k.position = p_position)));
    get diagnostics v_count = row_count;
    perform pg_notify('headrace_log', (select c.topic_id::text from headrace.consumer c where c.consumer_id = v_consumer_id));
    return v_count;
end
$$;

-- Gives dead letters of a consumer up: all, or one position. They stay on record as 'discarded'. Returns how many.
create or replace function headrace.discard(
    p_topic text, p_consumer text, p_position bigint default null, p_namespace text default null
) returns integer
language plpgsql volatile
as $$
declare
    v_consumer_id integer := headrace.consumer_id(p_topic, p_consumer, p_namespace);
    v_count       integer;
begin
    update headrace.dead_letter d set state = 'discarded', ended_at = headrace.clock()
    where d.consumer_id = v_consumer_id and d.state in ('dead', 'behind', 'redrive')
        and (p_position is null or d.position = p_position);
    get diagnostics v_count = row_count;
    return v_count;
end
$$;

-- Claims the oldest dead letter to be tried again whose key has none before it, with its partition's cursor. One that the cursor
-- has not come to yet waits until it was passed: redriven before, it would be handled again then.
-- Locks: the cursor row of the partition, skip locked, so that the key's order holds. Index: dead_letter_redrive.
create or replace function headrace.claim_redrive(p_consumer_id integer)
returns table (dead_letter_id bigint, partition integer, "position" bigint)
language sql volatile
as $$
    select d.dead_letter_id, d.partition, d.position
    from headrace.dead_letter d
    join headrace.cursor c on c.consumer_id = d.consumer_id and c.partition = d.partition
    where d.consumer_id = p_consumer_id and d.state = 'redrive' and d.position <= c.position
        and not exists (select from headrace.dead_letter e
            where e.consumer_id = d.consumer_id and e.key = d.key and e.position < d.position
                and e.state in ('dead', 'behind', 'redrive'))
    order by d.position
    limit 1
    for no key update of c skip locked
$$;

-- Ends a redrive: handled (error null), or dead again with everything that waits behind it. An error is recorded after the
-- handler's transaction was rolled back, so a letter that somebody else has ended meanwhile is left alone.
create or replace function headrace.end_redrive(p_dead_letter_id bigint, p_error text) returns void
language plpgsql volatile
as $$
begin
    if p_error is null then
        update headrace.dead_letter d set state = 'redriven', ended_at = headrace.clock(), attempts = d.attempts + 1
        where d.dead_letter_id = p_dead_letter_id;
        return;
    end if;
    update headrace.dead_letter d
    set state = 'dead', reason = 'handler failed again', error = left(p_error, 10000), attempts = d.attempts + 1
    where d.dead_letter_id = p_dead_letter_id and d.state = 'redrive';
    if not found then
        return;
    end if;
    update headrace.dead_letter b set state = 'behind'
    from headrace.dead_letter d
    where d.dead_letter_id = p_dead_letter_id and b.consumer_id = d.consumer_id and b.key = d.key
        and b.position > d.position and b.state = 'redrive';
end
$$;
