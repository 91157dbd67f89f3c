-- Returns a text as uuid; null if it is not one. Other programs may put messages of any form into the queue.
create or replace function headrace_internal.uuid_or_null(p_text text) returns uuid
language sql immutable parallel safe
as $$
    select case when p_text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_text::uuid end
$$;

-- Is the action with an id waiting for its next attempt at this time? A failed attempt records the time of the next one, which is then the
-- due time of the action; a claim moves the due time. An id is chosen by the sender: it means an action only together with its namespace.
-- Index: attempt_action.
-- Calls: uuid_or_null.
create or replace function headrace_internal.is_retrying(p_namespace text, p_due_at timestamptz, p_action_id text) returns boolean
language sql stable
as $$
    select exists (select from headrace_internal.attempt a
        where a.namespace = p_namespace and a.action_id = headrace_internal.uuid_or_null(p_action_id) and a.retry_at = p_due_at)
$$;

-- Returns the state of an action in the queue: 'due', 'in-flight' (a node holds it), 'retrying' (it failed and waits for its next attempt),
-- 'delayed', or 'held' (by a pause). Inlined: most rows are decided without a call, which is for those that were claimed.
-- Calls: is_retrying.
create or replace function headrace_internal.action_state(
    p_namespace text, p_due_at timestamptz, p_attempts integer, p_action_id text
) returns text
language sql stable
as $$
    select case when p_due_at <= headrace.clock() then 'due'
        when p_due_at > headrace.clock() + interval '25 years' then 'held'
        when p_attempts = 0 then 'delayed'
        when headrace_internal.is_retrying(p_namespace, p_due_at, p_action_id) then 'retrying'
        else 'in-flight' end
$$;

-- Returns the number of actions in a namespace's queue by state, the age of the oldest due one, and whether the queue is paused. 'retrying':
-- a failed action that waits for its next attempt; 'held': by the pause of its rule or of its name. 'dead': counted up to
-- 100 000, then as the table's statistics say. Index: attempt_action.
-- Calls: action_state, dead_letter_queue, queue_of.
create or replace function headrace.queue_state(
    p_namespace text default null, p_caller headrace_internal.caller default current_user
)
returns table (
    due bigint, in_flight bigint, delayed bigint, dead bigint, oldest_due_s double precision, retrying bigint, held bigint, paused boolean)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
begin
    return query execute format($sql$
        select count(*) filter (where s.state = 'due'), count(*) filter (where s.state = 'in-flight'),
            count(*) filter (where s.state = 'delayed'),
            (select case when count(*) < 100000 then count(*) else greatest(count(*), pg_stat_get_live_tuples($2)) end
            from (select from pgmq.%I limit 100000) d),
            coalesce(extract(epoch from headrace.clock() - min(q.vt) filter (where s.state = 'due')), 0)::double precision,
            count(*) filter (where s.state = 'retrying'), count(*) filter (where s.state = 'held'),
            exists (select from headrace_internal.pause p where p.namespace = $1 and p.kind = 'queue')
        from pgmq.%I q
        -- "offset 0": the state is computed once.
        cross join lateral (
            select headrace_internal.action_state($1, q.vt, q.read_ct, q.message ->> 'id') offset 0) s (state)
        $sql$, 'q_' || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)),
        'q_' || headrace_internal.queue_of(v_namespace))
    using v_namespace, format('pgmq.%I', 'q_' || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)))::regclass;
end
$$;

-- Returns the actions in a namespace's queue, oldest first: all, of some ids, of a name, of a key, sent longer than an interval ago, or in a state (due,
-- in-flight, retrying, delayed, held). With the error of the last failed attempt, and how many attempts the handler's policy allows.
-- Indexes: q_<queue>_key_order for a name and a key, q_<queue>_retried for the states retrying and in-flight, q_<queue>_pkey for the
-- order; ids are searched in the whole queue. attempt_action.
-- Calls: uuid_or_null, action_state, queue_of.
create or replace function headrace.queued_actions(
    p_action     text default null,
    p_key        text default null,
    p_state      text default null,
    p_older_than interval default null,
    p_ids        uuid[] default null,
    p_limit      integer default null,
    p_namespace  text default null,
    p_caller     headrace_internal.caller default current_user
) returns table (
    msg_id bigint, action_id uuid, action text, key text, state text, priority integer, attempts integer, attempts_max integer,
    sent_at timestamptz, due_at timestamptz, error text, failed_at timestamptz, producer text, cause jsonb, unique_key text, payload jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
    v_where     text;
begin
    if p_state is not null and p_state not in ('due', 'in-flight', 'retrying', 'delayed', 'held') then
        raise exception '% is not a state of an action', quote_literal(p_state)
            using errcode = 'HR300', hint = 'Choose due, in-flight, retrying, delayed or held.';
    end if;
    -- Add only the conditions that are asked for, so that an index can serve them.
    v_where := concat_ws(' and ', 'true',
        case when p_action is not null then 'q.message ->> ''action'' = $1' end,
        case when p_key is not null then 'q.message ->> ''key'' = $2' end,
        case when p_state in ('in-flight', 'retrying') then 'q.read_ct > 0 and q.vt > headrace.clock()' end,
        case when p_state = 'due' then 'q.vt <= headrace.clock()' end,
        case when p_state = 'held' then 'q.vt > headrace.clock() + interval ''25 years''' end,
        case when p_older_than is not null then 'q.enqueued_at < headrace.clock() - $4' end,
        case when p_ids is not null then 'q.message ->> ''id'' = any ($5::text[])' end,
        case when p_state is not null then 's.state = $3' end);
    return query execute format($sql$
        select q.msg_id, headrace_internal.uuid_or_null(q.message ->> 'id'), q.message ->> 'action', q.message ->> 'key', q.state,
            case when jsonb_typeof(q.message -> 'priority') = 'number' then trunc((q.message ->> 'priority')::numeric)::integer else 0 end,
            q.read_ct, a.attempts_max, q.enqueued_at, case when q.state <> 'held' then q.vt end, a.error, a.failed_at,
            q.message ->> 'producer', q.message -> 'cause', q.message ->> 'unique_key', q.message -> 'payload'
        from (
            select q.msg_id, q.message, q.read_ct, q.enqueued_at, q.vt, s.state from pgmq.%I q
            cross join lateral (
                select headrace_internal.action_state($7, q.vt, q.read_ct, q.message ->> 'id') offset 0) s (state)
            where %s
            order by q.msg_id
            limit $6
        ) q
        left join lateral (
            select a.attempts_max, a.error, a.failed_at from headrace_internal.attempt a
            where a.namespace = $7 and a.action_id = headrace_internal.uuid_or_null(q.message ->> 'id') order by a.failed_at desc limit 1
        ) a on true
        order by q.msg_id
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace), v_where)
    using p_action, p_key, p_state, p_older_than, p_ids, p_limit, v_namespace;
end
$$;

-- Records how actions ended that have left the queue: their messages and attempts. Messages of other programs that are no actions have no
-- result.
-- Calls: uuid_or_null.
create or replace function headrace_internal.record_results(
    p_namespace text, p_outcome text, p_messages jsonb[], p_attempts integer[], p_node_id uuid default null, p_duration_s real default null
) returns void
language sql volatile
as $$
    insert into headrace_internal.action_result (ended_at, action_id, node_id, duration_s, attempts, namespace, action, outcome, event_id)
    select headrace.clock(), headrace_internal.uuid_or_null(m.message ->> 'id'), p_node_id, p_duration_s, m.attempts, p_namespace,
        m.message ->> 'action', p_outcome, left(m.message -> 'cause' ->> 'event_id', 36)
    from unnest(p_messages, p_attempts) m (message, attempts)
    where headrace_internal.uuid_or_null(m.message ->> 'id') is not null and m.message ->> 'action' is not null
$$;

-- Returns the message ids of the actions that an operator has chosen; raises HR300 if nothing was chosen.
-- Calls: queued_actions.
create or replace function headrace_internal.selected_actions(
    p_ids uuid[], p_action text, p_key text, p_state text, p_namespace text
) returns bigint[]
language plpgsql stable
as $$
begin
    if p_ids is null and p_action is null and p_key is null and p_state is null then
        raise exception 'no actions were chosen'
            using errcode = 'HR300', hint = 'Choose them by id, action, key or state; see headrace.queued_actions.';
    end if;
    return array(
        select a.msg_id from headrace.queued_actions(p_action, p_key, p_state, p_ids => p_ids, p_namespace => p_namespace) a);
end
$$;

-- Removes actions from the queue and records them as 'cancelled'; by id, or by name, key and state. Returns how many. An action in
-- flight stays, unless p_in_flight: then its handler's ack fails (HR206), and the handler's effects are rolled back.
-- Locks: the rows; it waits for an ack in progress. Index: q_<queue>_pkey.
-- Calls: action_state, queue_of, selected_actions, record_results.
create or replace function headrace.cancel_actions(
    p_ids       uuid[] default null,
    p_action    text default null,
    p_key       text default null,
    p_state     text default null,
    p_in_flight boolean default false,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_messages  jsonb[];
    v_attempts  integer[];
begin
    -- The state is checked again for the row as it is when it is locked: a node may have claimed it meanwhile.
    execute format($sql$
        with gone as (
            delete from pgmq.%I q
            where q.msg_id = any ($1) and ($2 or headrace_internal.action_state($3, q.vt, q.read_ct, q.message ->> 'id') <> 'in-flight')
            returning q.message, q.read_ct)
        select array_agg(g.message), array_agg(g.read_ct) from gone g
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace))
    into v_messages, v_attempts using headrace_internal.selected_actions(p_ids, p_action, p_key, p_state, v_namespace), p_in_flight, v_namespace;
    if v_messages is null then
        return 0;
    end if;
    perform headrace_internal.record_results(v_namespace, 'cancelled', v_messages, v_attempts);
    -- What was cancelled does not keep a new one with its unique key away.
    delete from headrace_internal.unique_action u
    using unnest(v_messages) m (message)
    where u.namespace = v_namespace and u.action = m.message ->> 'action' and u.unique_key = m.message ->> 'unique_key'
        and u.action_id::text = m.message ->> 'id';
    return cardinality(v_messages);
end
$$;

-- Makes waiting actions due at once: delayed, retrying or held ones; by id, or by name, key and state. Returns how many. Actions that
-- are due or in flight stay as they are. A paused one still waits for headrace.resume. Locks: the rows. Index: q_<queue>_pkey.
-- Calls: action_state, queue_of, selected_actions, wake_queue.
create or replace function headrace.run_actions_now(
    p_ids       uuid[] default null,
    p_action    text default null,
    p_key       text default null,
    p_state     text default null,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_count     integer;
begin
    execute format($sql$
        update pgmq.%I q set vt = headrace.clock()
        where q.msg_id = any ($1) and headrace_internal.action_state($2, q.vt, q.read_ct, q.message ->> 'id') in ('delayed', 'retrying', 'held')
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace))
    using headrace_internal.selected_actions(p_ids, p_action, p_key, p_state, v_namespace), v_namespace;
    get diagnostics v_count = row_count;
    perform headrace.wake_queue(v_namespace);
    return v_count;
end
$$;

-- Changes the priority of actions that wait; by id, or by name, key and state. Returns how many. An action in flight keeps its own: it
-- is being handled. Locks: the rows. Index: q_<queue>_pkey.
-- Calls: action_state, queue_of, selected_actions.
create or replace function headrace.set_action_priority(
    p_priority  integer,
    p_ids       uuid[] default null,
    p_action    text default null,
    p_key       text default null,
    p_state     text default null,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_count     integer;
begin
    if p_priority is null then
        raise exception 'the priority of an action cannot be null' using errcode = 'HR300', hint = 'Give a number; 0 is the ordinary one.';
    end if;
    execute format($sql$
        update pgmq.%I q set message = q.message || jsonb_build_object('priority', $2)
        where q.msg_id = any ($1) and headrace_internal.action_state($3, q.vt, q.read_ct, q.message ->> 'id') <> 'in-flight'
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace))
    using headrace_internal.selected_actions(p_ids, p_action, p_key, p_state, v_namespace), p_priority, v_namespace;
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
