-- Records that a handler failed on an action, and says what follows: 'retry' after a growing pause with jitter, 'dead' when its
-- attempts are used up. Null: the lease had ended, somebody else decides. Call it after the handler's transaction was rolled back.
-- Locks: the row. Index: q_<queue>_pkey.
create or replace function headrace.fail_action(
    p_msg_id        bigint,
    p_attempt       integer,
    p_attempts_max  integer,
    p_backoff_s     double precision,
    p_backoff_max_s double precision,
    p_error         text,
    p_traceback     text default null,
    p_duration_s    real default null,
    p_node_id       uuid default null,
    p_namespace     text default null
) returns text
language plpgsql volatile
as $$
declare
    v_namespace text := headrace.current_namespace(p_namespace);
    v_retry_at  timestamptz;
    v_message   jsonb;
begin
    if p_attempt < p_attempts_max then
        v_retry_at := headrace.clock() + make_interval(secs => (0.5 + random() / 2)
            * least(p_backoff_max_s, p_backoff_s * 2 ^ least(p_attempt - 1, 30)));
    end if;
    execute format('update pgmq.%I q set vt = coalesce($3, q.vt) where q.msg_id = $1 and q.read_ct = $2 returning q.message',
        'q_' || headrace.queue_name(v_namespace))
    into v_message using p_msg_id, p_attempt, v_retry_at;
    if v_message is null then
        return null;
    end if;
    insert into headrace.attempt (action_id, node_id, duration_s, attempt, namespace, action, error, traceback, follows, retry_at)
    values ((v_message ->> 'id')::uuid, p_node_id, p_duration_s, p_attempt, v_namespace, v_message ->> 'action',
        left(p_error, 2000), left(p_traceback, 20000), case when v_retry_at is null then 'dead' else 'retry' end, v_retry_at);
    if v_retry_at is not null then
        return 'retry';
    end if;
    perform headrace.bury_actions(array[p_msg_id], 'failed', p_error, p_traceback, p_node_id, v_namespace);
    return 'dead';
end
$$;

-- Moves actions from the queue to its dead letters, with why; returns how many. A dead letter is
-- {"action": the envelope as it was, "reason", "error", "traceback", "attempts", "buried_at", "msg_id", "enqueued_at", "node_id"}.
-- Reasons: 'failed' (its attempts are used up), 'lost' (every node that took it died or hung), 'no_handler', 'unreadable'.
-- Locks: the rows. Index: q_<queue>_pkey.
create or replace function headrace.bury_actions(
    p_msg_ids bigint[], p_reason text, p_error text, p_traceback text default null, p_node_id uuid default null,
    p_namespace text default null
) returns integer
language plpgsql volatile
as $$
declare
    v_namespace text := headrace.current_namespace(p_namespace);
    v_queue     text := headrace.queue_name(v_namespace);
    v_letters   jsonb[];
begin
    execute format($sql$
        with gone as (delete from pgmq.%I q where q.msg_id = any ($1) returning q.msg_id, q.read_ct, q.enqueued_at, q.message)
        select array_agg(jsonb_build_object('action', g.message, 'reason', $2, 'error', $3, 'traceback', $4,
            'attempts', g.read_ct, 'buried_at', headrace.clock(), 'msg_id', g.msg_id, 'enqueued_at', g.enqueued_at, 'node_id', $5)
            order by g.msg_id)
        from gone g
        $sql$, 'q_' || v_queue)
    into v_letters using p_msg_ids, p_reason, left(p_error, 2000), left(p_traceback, 20000), p_node_id;
    if v_letters is null then
        return 0;
    end if;
    perform pgmq.send_batch(v_queue || '_dlq', v_letters, null::jsonb[], headrace.clock());
    insert into headrace.action_result (ended_at, action_id, node_id, attempts, namespace, action, outcome)
    select headrace.clock(), headrace.uuid_or_null(l.letter -> 'action' ->> 'id'), p_node_id, (l.letter ->> 'attempts')::integer,
        v_namespace, l.letter -> 'action' ->> 'action', 'dead'
    from unnest(v_letters) l (letter)
    where headrace.uuid_or_null(l.letter -> 'action' ->> 'id') is not null and l.letter -> 'action' ->> 'action' is not null;
    return cardinality(v_letters);
end
$$;

-- A text as uuid; null where it is none. What others put into the queue may have any form.
create or replace function headrace.uuid_or_null(p_text text) returns uuid
language sql immutable parallel safe
as $$
    select case when p_text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_text::uuid end
$$;

-- Buries actions that have been due for p_grace_s and that no node handles which was alive within 90 seconds (one that
-- stopped a moment ago counts: it may be restarting). Returns how many. Looks at the 10000 oldest.
-- Locks: the rows, skip locked. Index: q_<queue>_pkey.
create or replace function headrace.bury_unhandled(p_grace_s double precision default 5, p_namespace text default null) returns integer
language plpgsql volatile
as $$
declare
    v_namespace text := headrace.current_namespace(p_namespace);
    v_known     text[];
    v_row       record;
    v_buried    integer := 0;
begin
    select coalesce(array_agg(distinct h.action), '{}') into v_known
    from headrace.node n cross join unnest(n.handlers) h (action)
    where n.namespace = v_namespace and n.heartbeat_at > headrace.clock() - interval '90 seconds';
    for v_row in execute format($sql$
        select d.action, array_agg(d.msg_id) as msg_ids
        from (
            select q.msg_id, q.message ->> 'action' as action from pgmq.%I q
            where q.vt <= headrace.clock() - make_interval(secs => $1)
            order by q.msg_id limit 10000
            for update skip locked) d
        where d.action is null or d.action <> all ($2)
        group by d.action
        $sql$, 'q_' || headrace.queue_name(v_namespace)) using p_grace_s, v_known
    loop
        v_buried := v_buried + headrace.bury_actions(v_row.msg_ids, case when v_row.action is null then 'unreadable' else 'no_handler' end,
            coalesce(format('no node of namespace %s handles action %s', v_namespace, v_row.action), 'the message is not an action'),
            p_namespace => v_namespace);
    end loop;
    return v_buried;
end
$$;
