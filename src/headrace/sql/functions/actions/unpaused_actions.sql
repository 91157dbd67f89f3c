-- Those of some actions that are not paused; none if the queue is. Index: pause_pkey.
create or replace function headrace_internal.unpaused_actions(p_namespace text, p_actions text[]) returns text[]
language plpgsql stable
as $$
begin
    -- Most of the time nothing is paused.
    if not exists (select from headrace_internal.pause p where p.namespace = p_namespace and p.kind in ('action', 'queue')) then
        return p_actions;
    end if;
    return array(
        select a.action from unnest(p_actions) a (action)
        where not exists (
            select from headrace_internal.pause p
            where p.namespace = p_namespace and (p.kind = 'queue' or p.kind = 'action' and p.name = a.action)));
end
$$;
