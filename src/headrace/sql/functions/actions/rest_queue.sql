-- An idle node wants to be called (p_asleep), a woken one no longer does. Writes only when that changes.
-- Locks: the queue's row, skip locked: another node is changing it to the same end.
create or replace function headrace_internal.rest_queue(p_asleep boolean, p_namespace text default null) returns void
language sql volatile
as $$
    update headrace_internal.queue q set asleep = p_asleep
    where q.namespace = (
        select r.namespace from headrace_internal.queue r
        where r.namespace = headrace.current_namespace(p_namespace) and r.asleep <> p_asleep
        for no key update skip locked)
$$;
