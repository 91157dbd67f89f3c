-- The dead letters of a namespace's actions, oldest first: by id, by action, by error group, by the ids of the actions; with p_redriven
-- those that were redriven. "payload" is what a redrive would send: the edited or the original one.
-- Indexes: q_hrd_<namespace>_pkey, q_hrd_<namespace>_action, a_hrd_<namespace>_action.
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
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
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
