-- Registers a node, or marks it alive again; and the names of the actions it handles (headrace.action), if the caller may handle actions:
-- rules for them are then known. A name that no rule could have is left out. Nodes of the namespace without a heartbeat for a day are deleted.
-- Calls: holds_level.
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
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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

-- Records that a node also runs the sequencer and the other loops that serve every namespace; the doctor looks for one.
create or replace function headrace_internal.mark_sequencer(p_node_id uuid) returns void
language sql volatile
as $$
    update headrace_internal.node n set sequencer = true where n.node_id = p_node_id
$$;

-- Registers which consumers a node runs, as topic/consumer; after headrace.register_node. A consumer that no live node runs is idle.
-- False: the node is not known, or belongs to a namespace in which the caller may not consume.
create or replace function headrace.register_consumers(
    p_node_id uuid, p_consumers text[], p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'consume');
begin
    update headrace_internal.node n set consumers = p_consumers
    where n.node_id = p_node_id and n.namespace = any (v_namespaces);
    return found;
end
$$;

-- Records a node's heartbeat, with a report of what it did since the one before: see the column headrace.node_state.report. Forgets nodes
-- of its namespace without a heartbeat for a day. False: the node is not known (any more), or belongs to a namespace in which the caller may not consume; it
-- has to register again.
create or replace function headrace.heartbeat(
    p_node_id uuid, p_report jsonb default null, p_caller headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'consume');
begin
    update headrace_internal.node n set heartbeat_at = headrace.clock(), stopped_at = null, report = coalesce(p_report, n.report)
    where n.node_id = p_node_id and n.namespace = any (v_namespaces);
    if not found then
        return false;
    end if;
    delete from headrace_internal.node l
    using headrace_internal.node n
    where n.node_id = p_node_id and l.namespace = n.namespace and l.heartbeat_at < headrace.clock() - interval '1 day';
    return true;
end
$$;

-- Records that a node has stopped in order. A node of a namespace in which the caller may not consume is left alone.
create or replace function headrace.deregister_node(p_node_id uuid, p_caller headrace_internal.caller default current_user) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'consume');
begin
    update headrace_internal.node n set stopped_at = headrace.clock()
    where n.node_id = p_node_id and n.namespace = any (v_namespaces);
end
$$;

-- Deletes the rows of nodes that are lost or have stopped: one by its name or id, or all lost ones. Returns how many. A node that is
-- alive is left alone (HR200); HR105: there is no such node. A forgotten node that comes back registers again.
create or replace function headrace.forget_nodes(
    p_node text default null, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'work', p_namespace);
    v_count     integer;
begin
    delete from headrace_internal.node n
    where n.namespace = v_namespace and (p_node is null and n.stopped_at is null or p_node in (n.name, n.node_id::text))
        and (n.stopped_at is not null or n.heartbeat_at <= headrace.clock() - interval '90 seconds');
    get diagnostics v_count = row_count;
    if v_count = 0 and exists (
            select from headrace_internal.node n where n.namespace = v_namespace and p_node in (n.name, n.node_id::text)) then
        raise exception 'node "%" is alive', p_node
            using errcode = 'HR200', hint = 'Stop it first. A node without a heartbeat for 90 seconds is lost and can be forgotten.';
    end if;
    if v_count = 0 and p_node is not null then
        raise exception 'namespace "%" has no node "%"', v_namespace, p_node
            using errcode = 'HR105', hint = 'See: select name, state from headrace.node_state.';
    end if;
    return v_count;
end
$$;
