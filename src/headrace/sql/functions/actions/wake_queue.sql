-- Calls idle nodes at commit, where there are any. Busy ones find the action by themselves. Index: queue_pkey.
create or replace function headrace_internal.wake_queue(p_namespace text default null) returns void
language plpgsql volatile
as $$
begin
    perform pg_notify('headrace_action', q.namespace)
    from headrace_internal.queue q where q.namespace = headrace.current_namespace(p_namespace) and q.asleep;
end
$$;
