-- The open dead letters of one group (see headrace.count_dead_letters), in the order of their places: of actions the number of the dead
-- letter, of events the position. At most p_limit after the place p_after, so that a page costs the same wherever it is.
-- p_group: the error group. p_open: only those that are not marked for a redrive. Locks nothing. Indexes: q_<queue>_group, dead_letter_group.
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
    place bigint, id text, original_id uuid, name text, key text, payload jsonb, edited boolean, state text, reason text, error text,
    attempts integer, buried_at timestamptz)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
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
