-- Changes the priority of actions that wait; by id, or by name, key and state. Returns how many. An action in flight keeps its own: it
-- is being handled. Locks: the rows. Index: q_<queue>_pkey.
create or replace function headrace.set_action_priority(
    p_priority  integer,
    p_ids       uuid[] default null,
    p_action    text default null,
    p_key       text default null,
    p_state     text default null,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns integer
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
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
