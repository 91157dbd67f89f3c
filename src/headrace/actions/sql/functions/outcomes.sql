-- Deletes handled actions from the queue and records them as done, in the handlers' own transaction.
-- Each must still have the attempt number it was claimed with. Otherwise its lease has ended and another node may hold it: HR206
-- is raised, and the handlers' effects are rolled back with the transaction. Locks: the rows. Index: q_<queue>_pkey.
-- Planned once per session for the default namespace, as in headrace.claim_actions. $1 to $5 are the parameters of the function. The
-- settings keep a plan that was made for an empty queue right for a full one.
-- Calls: queue_of.
create or replace function headrace.ack_actions(
    p_msg_ids     bigint[],
    p_attempts    integer[],
    p_durations_s real[],
    p_node_id     uuid default null,
    p_namespace   text default null,
    p_caller      headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
    v_queue text;
    v_done  integer;
begin
    p_namespace := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_queue := headrace_internal.queue_of(p_namespace);
    if v_queue = 'hr_default' then
        with gone as (
            delete from pgmq.q_hr_default q
            using unnest($1, $2, $3) h (msg_id, attempt, duration_s)
            where q.msg_id = h.msg_id and q.read_ct = h.attempt
            returning (q.message ->> 'id')::uuid as action_id, q.message ->> 'action' as action,
                left(q.message -> 'cause' ->> 'event_id', 36) as event_id, h.attempt, h.duration_s)
        insert into headrace_internal.action_result (ended_at, action_id, node_id, duration_s, attempts, namespace, action, outcome,
            event_id)
        select (select headrace.clock()), g.action_id, $4, g.duration_s, g.attempt, $5, g.action, 'done', g.event_id
        from gone g;
    else
        execute format($sql$
        with gone as (
            delete from pgmq.%1$I q
            using unnest($1, $2, $3) h (msg_id, attempt, duration_s)
            where q.msg_id = h.msg_id and q.read_ct = h.attempt
            returning (q.message ->> 'id')::uuid as action_id, q.message ->> 'action' as action,
                left(q.message -> 'cause' ->> 'event_id', 36) as event_id, h.attempt, h.duration_s)
        insert into headrace_internal.action_result (ended_at, action_id, node_id, duration_s, attempts, namespace, action, outcome,
            event_id)
        select (select headrace.clock()), g.action_id, $4, g.duration_s, g.attempt, $5, g.action, 'done', g.event_id
        from gone g$sql$, 'q_' || v_queue) using p_msg_ids, p_attempts, p_durations_s, p_node_id, p_namespace;
    end if;
    get diagnostics v_done = row_count;
    if v_done < cardinality(p_msg_ids) then
        raise exception '% of % actions are no longer held: their lease ended before the handler did',
            cardinality(p_msg_ids) - v_done, cardinality(p_msg_ids)
            using errcode = 'HR206', hint = 'Another node may hold them now; raise lease_s or shorten the handler.';
    end if;
end
$$;

-- Moves actions from the queue to its dead letters, with the reason; returns how many. A dead letter is
-- {"action": the original envelope, "reason", "error", "traceback", "attempts", "buried_at", "msg_id", "enqueued_at", "node_id"}.
-- Reasons: 'failed' (no attempts left), 'buried' (its handler asked for it), 'lost' (every node that claimed it died or hung), 'no_handler', 'unreadable'.
-- Locks: the rows. Index: q_<queue>_pkey.
-- Calls: queue_of, dead_letter_queue, record_results.
create or replace function headrace.bury_actions(
    p_msg_ids bigint[], p_reason text, p_error text, p_traceback text default null, p_node_id uuid default null,
    p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_queue     text := headrace_internal.queue_of(v_namespace);
    v_letters   jsonb[];
    v_messages  jsonb[];
    v_attempts  integer[];
begin
    execute format($sql$
        with gone as (delete from pgmq.%I q where q.msg_id = any ($1) returning q.msg_id, q.read_ct, q.enqueued_at, q.message)
        select array_agg(jsonb_build_object('action', g.message, 'reason', $2, 'error', $3, 'traceback', $4,
            'attempts', g.read_ct, 'buried_at', headrace.clock(), 'msg_id', g.msg_id, 'enqueued_at', g.enqueued_at, 'node_id', $5)
            order by g.msg_id), array_agg(g.message order by g.msg_id), array_agg(g.read_ct order by g.msg_id)
        from gone g
        $sql$, 'q_' || v_queue)
    into v_letters, v_messages, v_attempts using p_msg_ids, p_reason, left(p_error, 2000), left(p_traceback, 20000), p_node_id;
    if v_letters is null then
        return 0;
    end if;
    perform pgmq.send_batch(headrace_internal.dead_letter_queue(v_queue), v_letters, null::jsonb[], headrace.clock());
    perform headrace_internal.record_results(v_namespace, 'dead', v_messages, v_attempts, p_node_id);
    return cardinality(v_letters);
end
$$;

-- Buries an action that has used up its attempts without any result from a node. The claim that found it is no attempt: the count
-- is set back to the attempts that were made. Locks: the row. Index: q_<queue>_pkey.
-- Calls: queue_of, bury_actions.
create or replace function headrace.bury_lost_action(
    p_msg_id bigint, p_attempts integer, p_error text, p_node_id uuid default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
begin
    execute format('update pgmq.%I q set read_ct = least(q.read_ct, $2) where q.msg_id = $1', 'q_' || headrace_internal.queue_of(v_namespace))
    using p_msg_id, p_attempts;
    perform headrace.bury_actions(array[p_msg_id], 'lost', p_error, p_node_id => p_node_id, p_namespace => v_namespace);
end
$$;

-- Buries actions that have been due for p_grace_s and that no live node handles: its heartbeat is older than 90 seconds (a node that has just
-- stopped counts: it may be restarting). Paused actions are held instead. Returns how many. Checks the 10000 oldest.
-- Locks: the rows, skip locked. Index: q_<queue>_pkey.
-- Calls: hold_paused_actions, queue_of, bury_actions.
create or replace function headrace.bury_unhandled(
    p_grace_s double precision default 300, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_known     text[];
    v_row       record;
    v_buried    integer := 0;
begin
    if exists (select from headrace_internal.pause p where p.namespace = v_namespace and p.kind = 'queue') then
        return 0;
    end if;
    perform headrace_internal.hold_paused_actions(v_namespace);
    select coalesce(array_agg(distinct h.action), '{}') into v_known
    from (
        select h.action from headrace_internal.node n cross join unnest(n.handlers) h (action)
        where n.namespace = v_namespace and n.heartbeat_at > headrace.clock() - interval '90 seconds'
        union all
        select p.name from headrace_internal.pause p where p.namespace = v_namespace and p.kind = 'action') h;
    for v_row in execute format($sql$
        select d.action, array_agg(d.msg_id) as msg_ids
        from (
            select q.msg_id, q.message ->> 'action' as action from pgmq.%I q
            where q.vt <= headrace.clock() - make_interval(secs => $1)
            order by q.msg_id limit 10000
            for update skip locked) d
        where d.action is null or d.action <> all ($2)
        group by d.action
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace)) using p_grace_s, v_known
    loop
        v_buried := v_buried + headrace.bury_actions(v_row.msg_ids, case when v_row.action is null then 'unreadable' else 'no_handler' end,
            coalesce(format('no node of namespace %s handles action %s; run a node with a handler for it, then redrive; or correct the name where it is sent',
                v_namespace, v_row.action), 'the message is not an action'),
            p_namespace => v_namespace);
    end loop;
    return v_buried;
end
$$;

-- Records that a handler failed on an action and returns what follows: 'retry' after a growing pause with jitter, or 'dead' when
-- no attempts are left; 'discarded' if the handler gave the action up. The handler may choose: p_verdict 'bury' (dead at once) or
-- 'discard'; or p_after_s, the pause before the next attempt. Null: the lease had ended, and another node decides. Call it after the handler's transaction was rolled
-- back.
-- Locks: the row. Index: q_<queue>_pkey.
-- Calls: queue_of, bury_actions, record_results.
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
    p_namespace     text default null,
    p_verdict       text default null,
    p_after_s       double precision default null,
    p_caller        headrace_internal.caller default current_user
) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_retry_at  timestamptz;
    v_message   jsonb;
    v_follows   text := case when p_verdict = 'discard' then 'discarded' when p_verdict = 'bury' or p_attempt >= p_attempts_max then 'dead'
        else 'retry' end;
begin
    if v_follows = 'retry' then
        v_retry_at := headrace.clock() + make_interval(secs => coalesce(p_after_s, (0.5 + random() / 2)
            * least(p_backoff_max_s, p_backoff_s * 2 ^ least(p_attempt - 1, 30))));
    end if;
    execute format('update pgmq.%I q set vt = coalesce($3, q.vt) where q.msg_id = $1 and q.read_ct = $2 returning q.message',
        'q_' || headrace_internal.queue_of(v_namespace))
    into v_message using p_msg_id, p_attempt, v_retry_at;
    if v_message is null then
        return null;
    end if;
    if (v_message -> 'redacted' ->> 'attempt')::integer = p_attempt then
        -- The handler had the action before an erasure took fields out of it; the error may quote them.
        p_error := '(erased)';
        p_traceback := null;
    end if;
    insert into headrace_internal.attempt (action_id, node_id, duration_s, attempt, namespace, action, error, traceback, follows, retry_at,
        attempts_max)
    values ((v_message ->> 'id')::uuid, p_node_id, p_duration_s, p_attempt, v_namespace, v_message ->> 'action',
        left(p_error, 2000), left(p_traceback, 20000), v_follows, v_retry_at, p_attempts_max);
    if v_follows = 'dead' then
        perform headrace.bury_actions(array[p_msg_id], case p_verdict when 'bury' then 'buried' else 'failed' end, p_error, p_traceback,
            p_node_id, v_namespace);
    elsif v_follows = 'discarded' then
        execute format('delete from pgmq.%I q where q.msg_id = $1', 'q_' || headrace_internal.queue_of(v_namespace)) using p_msg_id;
        perform headrace_internal.record_results(v_namespace, 'discarded', array[v_message], array[p_attempt], p_node_id, p_duration_s);
    end if;
    return v_follows;
end
$$;

-- Deletes results and failed attempts older than p_keep, oldest first, in chunks of p_piece rows. Stops after the first chunk that
-- ends later than p_time_max; the next call continues. Also deletes unique keys that nothing holds. Returns the number of rows.
-- Locks: the rows, skip locked: another node deletes them. Indexes: action_result_age, attempt_age, whatever the statistics say.
-- Calls: trim_unique_actions.
create or replace function headrace_internal.trim_results(
    p_keep interval default '30 days', p_piece integer default 10000, p_time_max interval default '1 second'
) returns integer
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_before  timestamptz := headrace.clock() - p_keep;
    -- Real time: headrace.clock() does not move within a call.
    v_end     timestamptz := clock_timestamp() + p_time_max;
    v_results integer;
    v_piece   integer;
    v_trimmed integer := 0;
begin
    loop
        delete from headrace_internal.action_result r where r.ctid = any (array(
            select o.ctid from headrace_internal.action_result o
            where o.ended_at < v_before order by o.ended_at limit p_piece for update skip locked));
        get diagnostics v_results = row_count;
        delete from headrace_internal.attempt a where a.ctid = any (array(
            select o.ctid from headrace_internal.attempt o
            where o.failed_at < v_before order by o.failed_at limit p_piece for update skip locked));
        get diagnostics v_piece = row_count;
        v_trimmed := v_trimmed + v_results + v_piece;
        exit when greatest(v_results, v_piece) < p_piece or clock_timestamp() > v_end;
    end loop;
    return v_trimmed + headrace_internal.trim_unique_actions();
end
$$;
