-- Moves actions from the queue to its dead letters, with the reason; returns how many. A dead letter is
-- {"action": the original envelope, "reason", "error", "traceback", "attempts", "buried_at", "msg_id", "enqueued_at", "node_id"}.
-- Reasons: 'failed' (no attempts left), 'buried' (its handler asked for it), 'lost' (every node that claimed it died or hung), 'no_handler', 'unreadable'.
-- Locks: the rows. Index: q_<queue>_pkey.
create or replace function headrace.bury_actions(
    p_msg_ids bigint[], p_reason text, p_error text, p_traceback text default null, p_node_id uuid default null,
    p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_queue     text := headrace_internal.queue_of(v_namespace);
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
    perform pgmq.send_batch(headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)), v_letters, null::jsonb[], headrace.clock());
    insert into headrace_internal.action_result (ended_at, action_id, node_id, attempts, namespace, action, outcome, event_id)
    select headrace.clock(), headrace_internal.uuid_or_null(l.letter -> 'action' ->> 'id'), p_node_id, (l.letter ->> 'attempts')::integer,
        v_namespace, l.letter -> 'action' ->> 'action', 'dead',
        left(l.letter -> 'action' -> 'cause' ->> 'event_id', 36)
    from unnest(v_letters) l (letter)
    where headrace_internal.uuid_or_null(l.letter -> 'action' ->> 'id') is not null and l.letter -> 'action' ->> 'action' is not null;
    return cardinality(v_letters);
end
$$;
