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
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
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
    -- By the topic's own branch: by the whole log it would be planned for, and lock, every topic.
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
