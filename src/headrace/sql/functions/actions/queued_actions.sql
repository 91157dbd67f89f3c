-- The actions in a namespace's queue, oldest first: all, of some ids, of a name, of a key, sent before a while ago, or in a state (due,
-- in-flight, retrying, delayed, held). With the error of the last failed attempt, and how many attempts the handler's policy allows.
-- Indexes: q_<queue>_key_order for a name and a key, q_<queue>_retried for the states retrying and in-flight, q_<queue>_pkey for the
-- order; ids are searched in the whole queue. attempt_action.
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
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
    v_where     text;
begin
    if p_state is not null and p_state not in ('due', 'in-flight', 'retrying', 'delayed', 'held') then
        raise exception '% is not a state of an action', quote_literal(p_state)
            using errcode = 'HR300', hint = 'Choose due, in-flight, retrying, delayed or held.';
    end if;
    -- Only the conditions that are asked for, so that an index can serve them.
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
        select q.msg_id, headrace_internal.uuid_or_null(q.message ->> 'id'), q.message ->> 'action', q.message ->> 'key', s.state,
            case when jsonb_typeof(q.message -> 'priority') = 'number' then trunc((q.message ->> 'priority')::numeric)::integer else 0 end,
            q.read_ct, a.attempts_max, q.enqueued_at, case when s.state <> 'held' then q.vt end, a.error, a.failed_at,
            q.message ->> 'producer', q.message -> 'cause', q.message ->> 'unique_key', q.message -> 'payload'
        from (
            select q.msg_id, q.message, q.read_ct, q.enqueued_at, q.vt, s.state from pgmq.%I q
            cross join lateral (
                -- Most rows are decided here; the function is for those that were claimed.
                select case when q.vt <= headrace.clock() then 'due'
                    when q.vt > headrace.clock() + interval '25 years' then 'held'
                    when q.read_ct = 0 then 'delayed'
                    else headrace_internal.action_state($7, q.vt, q.read_ct, q.message ->> 'id') end) s (state)
            where %s
            order by q.msg_id
            limit $6
        ) q
        cross join lateral (select q.state) s (state)
        left join lateral (
            select a.attempts_max, a.error, a.failed_at from headrace_internal.attempt a
            where a.namespace = $7 and a.action_id = headrace_internal.uuid_or_null(q.message ->> 'id') order by a.failed_at desc limit 1
        ) a on true
        order by q.msg_id
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace), v_where)
    using p_action, p_key, p_state, p_older_than, p_ids, p_limit, v_namespace;
end
$$;
