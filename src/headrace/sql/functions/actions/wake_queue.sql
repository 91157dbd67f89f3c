-- Notifies idle nodes at commit, if there are any; without a payload, since every role may listen. Busy nodes find the action by
-- themselves, and idle ones where transactions may be prepared, see headrace_internal.may_notify. Index: queue_pkey.
create or replace function headrace.wake_queue(
    p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'any', p_namespace);
begin
    perform pg_notify('headrace_action', '')
    from headrace_internal.queue q where q.namespace = v_namespace and q.asleep and headrace_internal.may_notify();
end
$$;
