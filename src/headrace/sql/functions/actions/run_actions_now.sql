-- Makes waiting actions due at once: delayed, retrying or held ones; by id, or by name, key and state. Returns how many. Actions that
-- are due or in flight stay as they are. A paused one still waits for headrace.resume. Locks: the rows. Index: q_<queue>_pkey.
create or replace function headrace.run_actions_now(
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
