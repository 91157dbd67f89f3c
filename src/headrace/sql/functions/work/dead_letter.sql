-- Dead letters of a namespace's actions, oldest first: those named, of one action, of one error group; p_redriven: those that
-- were redriven. "payload" is what a redrive would send: edited or as it was. Index: q_<queue>_dlq_pkey.
create or replace function headrace.action_dead_letters(
    p_ids       bigint[] default null,
    p_action    text default null,
    p_error     text default null,
    p_redriven  boolean default false,
    p_limit     integer default null,
    p_namespace text default null
) returns table (
    dead_letter_id bigint, action_id uuid, action text, key text, payload jsonb, edited boolean, reason text, error text, error_group text,
    traceback text, attempts integer, buried_at timestamptz, redriven_at timestamptz, envelope jsonb)
language plpgsql stable
as $$
begin
    return query execute format($sql$
        select d.msg_id, headrace.uuid_or_null(d.message -> 'action' ->> 'id'), d.message -> 'action' ->> 'action',
            d.message -> 'action' ->> 'key', coalesce(d.message -> 'edited_payload', d.message -> 'action' -> 'payload'),
            d.message ? 'edited_payload', d.message ->> 'reason', d.message ->> 'error', headrace.error_group(d.message ->> 'error'),
            d.message ->> 'traceback', (d.message ->> 'attempts')::integer, (d.message ->> 'buried_at')::timestamptz,
            (d.message ->> 'redriven_at')::timestamptz, d.message -> 'action'
        from pgmq.%I d
        where ($1 is null or d.msg_id = any ($1)) and ($2 is null or d.message -> 'action' ->> 'action' = $2)
            and ($3 is null or headrace.error_group(d.message ->> 'error') = headrace.error_group($3))
        order by d.msg_id
        limit $4
        $sql$, case when p_redriven then 'a_' else 'q_' end || headrace.queue_name(p_namespace) || '_dlq')
    using p_ids, p_action, p_error, p_limit;
end
$$;

-- What errors of one kind have in common: the first line, with its numbers and quoted parts blurred.
create or replace function headrace.error_group(p_error text) returns text
language sql immutable parallel safe
as $$
    select left(regexp_replace(regexp_replace(split_part(p_error, E'\n', 1), '''[^'']*''|"[^"]*"', '…', 'g'), '[0-9]+', '#', 'g'), 200)
$$;

-- Dead letters counted by action, reason and kind of error, the most frequent first.
create or replace function headrace.group_dead_letters(p_namespace text default null)
returns table (action text, reason text, error_group text, dead bigint, first_at timestamptz, last_at timestamptz, example_id bigint)
language sql stable
as $$
    select d.action, d.reason, d.error_group, count(*), min(d.buried_at), max(d.buried_at), max(d.dead_letter_id)
    from headrace.action_dead_letters(p_namespace => p_namespace) d
    group by d.action, d.reason, d.error_group
    order by count(*) desc, d.action, d.error_group
$$;

-- Changes what a redrive will send; the original payload stays in the dead letter. Null gives the original back.
create or replace function headrace.edit_dead_letter(p_dead_letter_id bigint, p_payload jsonb, p_namespace text default null)
returns void
language plpgsql volatile
as $$
declare
    v_found bigint;
begin
    if p_payload is not null then
        perform headrace.event_within_limits('edited', null, p_payload, '{}');
    end if;
    execute format($sql$
        update pgmq.%I d set message = case when $2 is null then d.message - 'edited_payload'
            else d.message || jsonb_build_object('edited_payload', $2) end
        where d.msg_id = $1 returning d.msg_id
        $sql$, 'q_' || headrace.queue_name(p_namespace) || '_dlq')
    into v_found using p_dead_letter_id, p_payload;
    if v_found is null then
        raise exception 'there is no dead letter % in namespace "%"', p_dead_letter_id, headrace.current_namespace(p_namespace)
            using errcode = 'HR103', hint = 'See: select dead_letter_id, action, error from headrace.action_dead_letters().';
    end if;
end
$$;

-- Sends dead letters to the queue again, with their id and a fresh count of attempts: those named, of one action, of one kind
-- of error, or all. The originals are kept in the archive of the dead-letter queue. Returns how many.
create or replace function headrace.redrive_actions(
    p_ids bigint[] default null, p_action text default null, p_error text default null, p_namespace text default null
) returns integer
language plpgsql volatile
as $$
declare
    v_queue   text := headrace.queue_name(p_namespace);
    v_ids     bigint[];
    v_actions jsonb[];
begin
    select array_agg(d.dead_letter_id order by d.dead_letter_id) into v_ids
    from headrace.action_dead_letters(p_ids, p_action, p_error, p_namespace => p_namespace) d
    where d.action_id is not null and d.action is not null;
    -- Only what this transaction marks is sent: two redrives side by side send each one once.
    execute format($sql$
        with marked as (
            update pgmq.%I d set message = d.message || jsonb_build_object('redriven_at', headrace.clock())
            where d.msg_id = any ($1) returning d.msg_id, d.message)
        select array_agg(m.msg_id order by m.msg_id), array_agg((m.message -> 'action') || jsonb_build_object(
            'payload', coalesce(m.message -> 'edited_payload', m.message -> 'action' -> 'payload'),
            'redriven_from', m.msg_id) order by m.msg_id)
        from marked m
        $sql$, 'q_' || v_queue || '_dlq')
    into v_ids, v_actions using v_ids;
    if v_ids is null then
        return 0;
    end if;
    perform headrace.send_actions(p_namespace, v_actions);
    perform pgmq.archive(v_queue || '_dlq', v_ids);
    return cardinality(v_ids);
end
$$;

-- Deletes dead letters for good: those named, of one action, of one kind of error, or all; with p_redriven those kept after a
-- redrive. Returns how many.
create or replace function headrace.purge_dead_letters(
    p_ids bigint[] default null, p_action text default null, p_error text default null, p_redriven boolean default false,
    p_namespace text default null
) returns integer
language plpgsql volatile
as $$
declare
    v_count integer;
begin
    execute format('delete from pgmq.%I d where d.msg_id in (select l.dead_letter_id from headrace.action_dead_letters($1, $2, $3, $4, '
        'p_namespace => $5) l)', case when p_redriven then 'a_' else 'q_' end || headrace.queue_name(p_namespace) || '_dlq')
    using p_ids, p_action, p_error, p_redriven, p_namespace;
    get diagnostics v_count = row_count;
    return v_count;
end
$$;

-- Every dead letter there is: the consumers' events and the queues' actions.
create or replace view headrace.dead_letters as
select t.namespace, 'event' as kind, d.dead_letter_id, t.topic || '/' || c.consumer as source, d.event_id as id, d.type as name, d.key,
    d.payload, d.state, d.reason, d.error, d.attempts, d.buried_at
from headrace.dead_letter d
join headrace.consumer c on c.consumer_id = d.consumer_id
join headrace.topic t on t.topic_id = c.topic_id
where d.state in ('dead', 'behind', 'redrive')
union all
select n.namespace, 'action', a.dead_letter_id, 'queue', a.action_id, a.action, a.key, a.payload, 'dead', a.reason, a.error, a.attempts, a.buried_at
from headrace.namespace n
cross join lateral headrace.action_dead_letters(p_namespace => n.namespace) a;
