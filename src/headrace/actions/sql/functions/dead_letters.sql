-- Returns the dead letters of a namespace's actions, oldest first: by id, by action, by error group, by the ids of the actions; with p_redriven
-- those that were redriven. "payload" is what a redrive would send: the edited or the original one.
-- Indexes: q_hrd_<namespace>_pkey, q_hrd_<namespace>_action, a_hrd_<namespace>_action.
-- Calls: uuid_or_null, error_group, dead_letter_queue, queue_of.
create or replace function headrace.action_dead_letters(
    p_ids       bigint[] default null,
    p_action    text default null,
    p_error     text default null,
    p_redriven  boolean default false,
    p_limit     integer default null,
    p_actions   uuid[] default null,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns table (
    dead_letter_id bigint, action_id uuid, action text, key text, payload jsonb, edited boolean, reason text, error text, error_group text,
    traceback text, attempts integer, buried_at timestamptz, redriven_at timestamptz, envelope jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
begin
    return query execute format($sql$
        select d.msg_id, headrace_internal.uuid_or_null(d.message -> 'action' ->> 'id'), d.message -> 'action' ->> 'action',
            d.message -> 'action' ->> 'key', coalesce(d.message -> 'edited_payload', d.message -> 'action' -> 'payload'),
            d.message ? 'edited_payload', d.message ->> 'reason', d.message ->> 'error', headrace_internal.error_group(d.message ->> 'error'),
            d.message ->> 'traceback', (d.message ->> 'attempts')::integer, (d.message ->> 'buried_at')::timestamptz,
            (d.message ->> 'redriven_at')::timestamptz, d.message -> 'action'
        from pgmq.%I d
        where ($1 is null or d.msg_id = any ($1)) and ($2 is null or d.message -> 'action' ->> 'action' = $2)
            and ($3 is null or headrace_internal.error_group(d.message ->> 'error') = headrace_internal.error_group($3))
            and ($5 is null or d.message -> 'action' ->> 'id' = any ($5))
        order by d.msg_id
        limit $4
        $sql$, case when p_redriven then 'a_' else 'q_' end || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)))
    using p_ids, p_action, p_error, p_limit, p_actions::text[];
end
$$;

-- Returns the open dead letters of a namespace, counted by what they have in common: of actions the name, of events topic and consumer; reason
-- and error group. Of each group up to p_counted letters are counted, fewer if there are many groups; `is_more` says that there are
-- more, and the example is the newest. At most p_groups groups of each kind are returned. So a call costs the same however many dead letters there are.
-- The groups are found one after the other: each is the first in the index after the one before.
-- Locks nothing. Indexes: q_<queue>_group, dead_letter_group.
-- Calls: dead_letter_group, dead_letter_queue, queue_of, error_group.
create or replace function headrace.count_dead_letters(
    p_counted   integer default 10000,
    p_groups    integer default 200,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns table (
    kind text, source text, name text, reason text, error_group text, dead bigint, marked bigint, is_more boolean, first_at timestamptz,
    last_at timestamptz, example_id text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
    -- The counts of all groups read 100 000 letters at most.
    v_total     constant integer := 100000;
begin
    return query execute format($sql$
        with recursive letter_group as (
            (select headrace_internal.dead_letter_group(d.message) as parts from pgmq.%1$I d
            order by headrace_internal.dead_letter_group(d.message) limit 1)
            union all
            select n.parts
            from letter_group g
            cross join lateral (
                select headrace_internal.dead_letter_group(d.message) as parts from pgmq.%1$I d
                where headrace_internal.dead_letter_group(d.message) > g.parts
                order by headrace_internal.dead_letter_group(d.message) limit 1) n
        ), chosen as materialized (
            select g.parts from letter_group g limit $1
        ), bound as materialized (
            select least($2, greatest(100, $3 / greatest(count(*), 1))) as letters from chosen
        )
        select 'action', 'queue', nullif(g.parts[1], ''), g.parts[2], nullif(g.parts[3], ''), least(c.letters, b.letters), 0::bigint,
            c.letters > b.letters, f.buried_at, l.buried_at, l.msg_id::text
        from chosen g
        cross join bound b
        cross join lateral (
            select count(*) as letters from (
                select from pgmq.%1$I d where headrace_internal.dead_letter_group(d.message) = g.parts limit b.letters + 1) d) c
        cross join lateral (
            select (d.message ->> 'buried_at')::timestamptz as buried_at from pgmq.%1$I d
            where headrace_internal.dead_letter_group(d.message) = g.parts
            order by headrace_internal.dead_letter_group(d.message), d.msg_id limit 1) f
        cross join lateral (
            select (d.message ->> 'buried_at')::timestamptz as buried_at, d.msg_id from pgmq.%1$I d
            where headrace_internal.dead_letter_group(d.message) = g.parts
            order by headrace_internal.dead_letter_group(d.message) desc, d.msg_id desc limit 1) l
        $sql$, 'q_' || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)))
    using p_groups, p_counted, v_total;
    return query
    with recursive letter_group as (
        select c.consumer_id, t.topic || '/' || c.consumer as source, f.reason, f.error_group
        from headrace_internal.topic t
        join headrace_internal.consumer c on c.topic_id = t.topic_id
        cross join lateral (
            select d.reason, coalesce(headrace_internal.error_group(d.error), '') as error_group from headrace_internal.dead_letter d
            where d.consumer_id = c.consumer_id and d.state in ('dead', 'behind', 'redrive')
            order by d.reason, coalesce(headrace_internal.error_group(d.error), '') limit 1) f
        where t.namespace = v_namespace
        union all
        select g.consumer_id, g.source, n.reason, n.error_group
        from letter_group g
        cross join lateral (
            select d.reason, coalesce(headrace_internal.error_group(d.error), '') as error_group from headrace_internal.dead_letter d
            where d.consumer_id = g.consumer_id and d.state in ('dead', 'behind', 'redrive')
                and (d.reason, coalesce(headrace_internal.error_group(d.error), '')) > (g.reason, g.error_group)
            order by d.reason, coalesce(headrace_internal.error_group(d.error), '') limit 1) n
    ), chosen as materialized (
        select g.consumer_id, g.source, g.reason, g.error_group from letter_group g limit p_groups
    ), bound as materialized (
        select least(p_counted, greatest(100, v_total / greatest(count(*), 1))) as letters from chosen
    )
    select 'event', g.source, null, g.reason, nullif(g.error_group, ''), least(c.dead, b.letters), c.marked, c.letters > b.letters,
        f.buried_at, l.buried_at, g.source || '/' || l.position
    from chosen g
    cross join bound b
    cross join lateral (
        select count(*) as letters, count(*) filter (where d.state <> 'redrive') as dead, count(*) filter (where d.state = 'redrive') as marked
        from (
            select d.state from headrace_internal.dead_letter d
            where d.consumer_id = g.consumer_id and d.state in ('dead', 'behind', 'redrive') and d.reason = g.reason
                and coalesce(headrace_internal.error_group(d.error), '') = g.error_group
            limit b.letters + 1) d) c
    cross join lateral (
        select d.buried_at from headrace_internal.dead_letter d
        where d.consumer_id = g.consumer_id and d.state in ('dead', 'behind', 'redrive') and d.reason = g.reason
            and coalesce(headrace_internal.error_group(d.error), '') = g.error_group
        order by d.reason, coalesce(headrace_internal.error_group(d.error), ''), d.position limit 1) f
    cross join lateral (
        select d.buried_at, d.position from headrace_internal.dead_letter d
        where d.consumer_id = g.consumer_id and d.state in ('dead', 'behind', 'redrive') and d.reason = g.reason
            and coalesce(headrace_internal.error_group(d.error), '') = g.error_group
        order by d.reason desc, coalesce(headrace_internal.error_group(d.error), '') desc, d.position desc limit 1) l;
end
$$;

-- Returns the open dead letters of one group (see headrace.count_dead_letters), in the order of their numbers: of actions the number of the dead
-- letter, of events the position. At most p_limit after the number p_after, so that a page costs the same wherever it is.
-- p_group: the error group. p_open: only those that are not marked for a redrive. Locks nothing. Indexes: q_<queue>_group, dead_letter_group.
-- Calls: uuid_or_null, dead_letter_group, dead_letter_queue, queue_of, error_group.
create or replace function headrace.read_dead_letters(
    p_kind      text,
    p_source    text,
    p_name      text,
    p_reason    text,
    p_group     text,
    p_after     bigint default 0,
    p_limit     integer default 100,
    p_open      boolean default false,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns table (
    number bigint, id text, original_id uuid, name text, key text, payload jsonb, edited boolean, state text, reason text, error text,
    attempts integer, buried_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
begin
    if p_kind = 'action' then
        return query execute format($sql$
            select d.msg_id, d.msg_id::text, headrace_internal.uuid_or_null(d.message -> 'action' ->> 'id'), d.message -> 'action' ->> 'action',
                d.message -> 'action' ->> 'key', coalesce(d.message -> 'edited_payload', d.message -> 'action' -> 'payload'),
                d.message ? 'edited_payload', 'dead', d.message ->> 'reason', d.message ->> 'error', (d.message ->> 'attempts')::integer,
                (d.message ->> 'buried_at')::timestamptz
            from pgmq.%I d
            where headrace_internal.dead_letter_group(d.message) = array[coalesce($1, ''), coalesce($2, ''), coalesce($3, '')]
                and d.msg_id > $4
            order by headrace_internal.dead_letter_group(d.message), d.msg_id
            limit $5
            $sql$, 'q_' || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)))
        using p_name, p_reason, p_group, p_after, p_limit;
    else
        return query
        select d.position, p_source || '/' || d.position, d.event_id, d.type, d.key, coalesce(d.edited_payload, d.payload),
            d.edited_payload is not null, d.state, d.reason, d.error, d.attempts, d.buried_at
        from headrace_internal.dead_letter d
        where d.consumer_id = (
                select c.consumer_id from headrace_internal.topic t join headrace_internal.consumer c on c.topic_id = t.topic_id
                where t.namespace = v_namespace and t.topic = split_part(p_source, '/', 1) and c.consumer = split_part(p_source, '/', 2))
            and d.state in ('dead', 'behind', 'redrive') and (d.state <> 'redrive' or not p_open)
            and d.reason = p_reason and coalesce(headrace_internal.error_group(d.error), '') = coalesce(p_group, '')
            and d.position > p_after
        order by d.reason, coalesce(headrace_internal.error_group(d.error), ''), d.position
        limit p_limit;
    end if;
end
$$;

-- Changes the payload that a redrive will send; the original stays in the dead letter. Null restores the original.
-- Calls: event_within_limits, dead_letter_queue, queue_of.
create or replace function headrace.edit_dead_letter(
    p_dead_letter_id bigint, p_payload jsonb, p_namespace text default null, p_caller headrace_internal.caller default current_user
)
returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_id        bigint;
begin
    if p_payload is not null then
        perform headrace.event_within_limits('edited', null, p_payload, '{}');
    end if;
    execute format($sql$
        update pgmq.%I d set message = case when $2 is null then d.message - 'edited_payload'
            else d.message || jsonb_build_object('edited_payload', $2) end
        where d.msg_id = $1 returning d.msg_id
        $sql$, 'q_' || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)))
    into v_id using p_dead_letter_id, p_payload;
    if v_id is null then
        raise exception 'there is no dead letter % in namespace "%"', p_dead_letter_id, v_namespace
            using errcode = 'HR103', hint = 'See: select dead_letter_id, action, error from headrace.action_dead_letters().';
    end if;
end
$$;

-- Sends dead letters to the queue again, with the same id and no attempts: by id, by action, by error group, or all. The originals
-- stay in the archive of the dead-letter queue. Returns how many.
-- Calls: dead_letter_queue, queue_of, action_dead_letters, send_actions.
create or replace function headrace.redrive_actions(
    p_ids bigint[] default null, p_action text default null, p_error text default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_queue     text := headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace));
    v_ids       bigint[];
    v_actions   jsonb[];
begin
    select array_agg(d.dead_letter_id order by d.dead_letter_id) into v_ids
    from headrace.action_dead_letters(p_ids, p_action, p_error, p_namespace => v_namespace) d
    where d.action_id is not null and d.action is not null;
    -- Send only what this transaction marks: two concurrent redrives send each letter once.
    execute format($sql$
        with marked as (
            update pgmq.%I d set message = d.message || jsonb_build_object('redriven_at', headrace.clock())
            where d.msg_id = any ($1) returning d.msg_id, d.message)
        select array_agg(m.msg_id order by m.msg_id), array_agg((m.message -> 'action') || jsonb_build_object(
            'payload', coalesce(m.message -> 'edited_payload', m.message -> 'action' -> 'payload'),
            'redriven_from', m.msg_id) order by m.msg_id)
        from marked m
        $sql$, 'q_' || v_queue)
    into v_ids, v_actions using v_ids;
    if v_ids is null then
        return 0;
    end if;
    perform headrace.send_actions(v_namespace, v_actions);
    perform pgmq.archive(v_queue, v_ids);
    return cardinality(v_ids);
end
$$;

-- Deletes dead letters: by id, by action, by error group, or all; with p_redriven the originals kept after a redrive. Returns how
-- many.
-- Calls: action_dead_letters, dead_letter_queue, queue_of.
create or replace function headrace.discard_actions(
    p_ids bigint[] default null, p_action text default null, p_error text default null, p_redriven boolean default false,
    p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_count     integer;
begin
    execute format('delete from pgmq.%I d where d.msg_id in (select l.dead_letter_id from headrace.action_dead_letters($1, $2, $3, $4, '
        'p_namespace => $5) l)', case when p_redriven then 'a_' else 'q_' end || headrace_internal.dead_letter_queue(headrace_internal.queue_of(v_namespace)))
    using p_ids, p_action, p_error, p_redriven, v_namespace;
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
