-- Buries an action that has used up its attempts without any result from a node. The claim that found it is no attempt: the count
-- is set back to the attempts that were made. Locks: the row. Index: q_<queue>_pkey.
create or replace function headrace.bury_lost_action(
    p_msg_id bigint, p_attempts integer, p_error text, p_node_id uuid default null, p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
begin
    execute format('update pgmq.%I q set read_ct = least(q.read_ct, $2) where q.msg_id = $1', 'q_' || headrace_internal.queue_of(v_namespace))
    using p_msg_id, p_attempts;
    perform headrace.bury_actions(array[p_msg_id], 'lost', p_error, p_node_id => p_node_id, p_namespace => v_namespace);
end
$$;
