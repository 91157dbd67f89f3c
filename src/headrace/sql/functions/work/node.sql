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
    delete from headrace.node n where n.heartbeat_at < headrace.clock() - interval '1 day';
    insert into headrace.node (node_id, namespace, name, description, metadata, version, handlers)
    values (p_node_id, headrace.current_namespace(p_namespace), p_name, p_description, p_metadata, p_version, p_handlers)
    on conflict on constraint node_pkey do update set heartbeat_at = headrace.clock(), stopped_at = null;
end
$$;

-- A node's sign of life. False: it is not known (any more) and has to register again.
create or replace function headrace.heartbeat(p_node_id uuid) returns boolean
language plpgsql volatile
as $$
begin
    update headrace.node n set heartbeat_at = headrace.clock(), stopped_at = null where n.node_id = p_node_id;
    return found;
end
$$;

-- A node ends in order.
create or replace function headrace.deregister_node(p_node_id uuid) returns void
language sql volatile
as $$
    update headrace.node n set stopped_at = headrace.clock() where n.node_id = p_node_id
$$;
