-- Makes a node known, or alive again. Nodes gone for a day are forgotten.
create or replace function headrace.register_node(
    p_node_id     uuid,
    p_name        text,
    p_version     text,
    p_handlers    text[] default '{}',
    p_description text default null,
    p_metadata    jsonb default '{}',
    p_namespace   text default null
) returns void
language plpgsql volatile
as $$
begin
    delete from headrace_internal.node n where n.heartbeat_at < headrace.clock() - interval '1 day';
    insert into headrace_internal.node (node_id, namespace, name, description, metadata, version, handlers)
    values (p_node_id, headrace.current_namespace(p_namespace), p_name, p_description, p_metadata, p_version, p_handlers)
    on conflict on constraint node_pkey do update set heartbeat_at = headrace.clock(), stopped_at = null;
end
$$;
