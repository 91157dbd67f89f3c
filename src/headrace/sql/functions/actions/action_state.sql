-- The state of an action in the queue: 'due', 'in-flight' (a node holds it), 'retrying' (it failed and waits for its next attempt),
-- 'delayed', or 'held' (by a pause). A failed attempt records the time of the next one, which is then the due time of the action; a
-- claim moves the due time. An id is chosen by the sender: it means an action only together with its namespace. Index: attempt_action.
create or replace function headrace_internal.action_state(
    p_namespace text, p_due_at timestamptz, p_attempts integer, p_action_id text
) returns text
language sql stable
as $$
    select case when p_due_at <= headrace.clock() then 'due'
        when p_due_at > headrace.clock() + interval '25 years' then 'held'
        when p_attempts = 0 then 'delayed'
        when exists (select from headrace_internal.attempt a
            where a.namespace = p_namespace and a.action_id = headrace_internal.uuid_or_null(p_action_id) and a.retry_at = p_due_at) then 'retrying'
        else 'in-flight' end
$$;
