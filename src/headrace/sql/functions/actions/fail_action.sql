-- Records that a handler failed on an action and returns what follows: 'retry' after a growing pause with jitter, or 'dead' when
-- no attempts are left; 'discarded' if the handler gave the action up. The handler may choose: p_verdict 'bury' (dead at once) or
-- 'discard'; or p_after_s, the pause before the next attempt. Null: the lease had ended, and another node decides. Call it after the handler's transaction was rolled
-- back.
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
    p_namespace     text default null,
    p_verdict       text default null,
    p_after_s       double precision default null,
    p_caller        headrace_internal.caller default current_user
) returns text
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
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
        insert into headrace_internal.action_result (ended_at, action_id, node_id, duration_s, attempts, namespace, action, outcome, event_id)
        values (headrace.clock(), (v_message ->> 'id')::uuid, p_node_id, p_duration_s, p_attempt, v_namespace, v_message ->> 'action',
            'discarded', left(v_message -> 'cause' ->> 'event_id', 36));
    end if;
    return v_follows;
end
$$;
