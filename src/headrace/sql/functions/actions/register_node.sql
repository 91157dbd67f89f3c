-- Registers a node, or marks it alive again; and the names of the actions it handles (headrace.action), if the caller may handle actions:
-- rules for them are then known. A name that no rule could have is left out. Nodes of the namespace without a heartbeat for a day are deleted.
create or replace function headrace.register_node(
    p_node_id     uuid,
    p_name        text,
    p_version     text,
    p_handlers    text[] default '{}',
    p_description text default null,
    p_metadata    jsonb default '{}',
    p_namespace   text default null,
    p_caller      headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
begin
    delete from headrace_internal.node n where n.namespace = v_namespace and n.heartbeat_at < headrace.clock() - interval '1 day';
    insert into headrace_internal.node as node (node_id, namespace, name, description, metadata, version, handlers)
    values (p_node_id, v_namespace, p_name, p_description, p_metadata, p_version, p_handlers)
    on conflict on constraint node_pkey do update set heartbeat_at = headrace.clock(), stopped_at = null
    where node.namespace = excluded.namespace;
    if headrace_internal.holds_level(p_caller, 'work', v_namespace) is true then
        insert into headrace_internal.action (namespace, action)
        select v_namespace, h.action from (select distinct unnest(p_handlers)) h (action)
        where h.action ~ '^[A-Za-z_][A-Za-z0-9_.:/-]{0,199}$'
        order by h.action
        on conflict on constraint action_pkey do nothing;
    end if;
end
$$;
