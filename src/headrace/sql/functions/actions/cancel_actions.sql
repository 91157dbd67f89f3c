-- Removes actions from the queue and records them as 'cancelled'; by id, or by name, key and state. Returns how many. An action in
-- flight stays, unless p_in_flight: then its handler's ack fails (HR206), and the handler's effects are rolled back.
-- Locks: the rows; it waits for an ack in progress. Index: q_<queue>_pkey.
create or replace function headrace.cancel_actions(
    p_ids       uuid[] default null,
    p_action    text default null,
    p_key       text default null,
    p_state     text default null,
    p_in_flight boolean default false,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_messages  jsonb[];
begin
    -- The state is checked again for the row as it is when it is locked: a node may have claimed it meanwhile.
    execute format($sql$
        with gone as (
            delete from pgmq.%I q
            where q.msg_id = any ($1) and ($2 or headrace_internal.action_state($3, q.vt, q.read_ct, q.message ->> 'id') <> 'in-flight')
            returning q.message, q.read_ct)
        select array_agg(g.message || jsonb_build_object('attempts', g.read_ct)) from gone g
        $sql$, 'q_' || headrace_internal.queue_of(v_namespace))
    into v_messages using headrace_internal.selected_actions(p_ids, p_action, p_key, p_state, v_namespace), p_in_flight, v_namespace;
    if v_messages is null then
        return 0;
    end if;
    insert into headrace_internal.action_result (ended_at, action_id, attempts, namespace, action, outcome, event_id)
    select headrace.clock(), headrace_internal.uuid_or_null(m.message ->> 'id'), (m.message ->> 'attempts')::integer, v_namespace,
        m.message ->> 'action', 'cancelled', left(m.message -> 'cause' ->> 'event_id', 36)
    from unnest(v_messages) m (message)
    where headrace_internal.uuid_or_null(m.message ->> 'id') is not null and m.message ->> 'action' is not null;
    -- What was cancelled does not keep a new one with its unique key away.
    delete from headrace_internal.unique_action u
    using unnest(v_messages) m (message)
    where u.namespace = v_namespace and u.action = m.message ->> 'action' and u.unique_key = m.message ->> 'unique_key'
        and u.action_id::text = m.message ->> 'id';
    return cardinality(v_messages);
end
$$;
