-- Records whether the idle nodes of a namespace wait for a notification (p_asleep). Writes only when that changes.
-- Locks: the queue's row, skip locked: another node is writing the same.
create or replace function headrace.rest_queue(
    p_asleep boolean, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
begin
    update headrace_internal.queue q set asleep = p_asleep
    where q.namespace = (
        select r.namespace from headrace_internal.queue r
        where r.namespace = v_namespace and r.asleep <> p_asleep
        for no key update skip locked);
end
$$;
