-- Raises HR131 if a namespace does not exist.
create or replace function headrace_internal.namespace_exists(p_namespace text) returns void
language plpgsql stable
as $$
declare
    v_known text;
begin
    if not exists (select from headrace_internal.namespace n where n.namespace = p_namespace) then
        select string_agg(n.namespace, ', ' order by n.namespace) into v_known
        from (select namespace from headrace_internal.namespace order by namespace limit 10) n;
        raise exception 'there is no namespace "%"', p_namespace
            using errcode = 'HR131',
                hint = format('Create it: select headrace.create_namespace(%L). Known namespaces: %s.', p_namespace, v_known);
    end if;
end
$$;

-- Creates a namespace. Raises HR231 if it exists already.
create or replace function headrace.create_namespace(p_namespace text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    insert into headrace_internal.namespace (namespace) values (p_namespace) on conflict on constraint namespace_pkey do nothing;
    if not found then
        raise exception 'namespace "%" already exists', p_namespace
            using errcode = 'HR231', hint = 'Use it, or choose another name.';
    end if;
end
$$;

-- Drops an empty namespace with its grants. Rejected (HR232) while it has topics, or actions in its queue.
-- Raises HR208 unless READ COMMITTED: whether the queue is empty is judged under its lock. Locks: the queue, access exclusive, for
-- which it waits at most 2 s.
-- Calls: require_read_committed, namespace_exists, queue_tables, revoke_namespace.
create or replace function headrace.drop_namespace(p_namespace text) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
    v_topics text;
    v_queue  regclass;
    v_holds  boolean;
begin
    perform headrace_internal.require_read_committed('headrace.drop_namespace');
    perform headrace_internal.namespace_exists(p_namespace);
    if p_namespace = 'default' then
        raise exception 'namespace "default" cannot be dropped' using errcode = 'HR232';
    end if;
    select string_agg(t.topic, ', ' order by t.topic) into v_topics
    from (select topic from headrace_internal.topic where namespace = p_namespace order by topic limit 10) t;
    if v_topics is not null then
        raise exception 'namespace "%" has topics: %', p_namespace, v_topics
            using errcode = 'HR232', hint = 'Drop them first.';
    end if;
    for v_queue in
        select q.queue_table from headrace_internal.queue_tables(p_namespace) q (queue_table) where q.queue_table::text !~ '\ma_'
    loop
        execute format('lock table %s in access exclusive mode', v_queue);
        execute format('select exists (select from %s)', v_queue) into v_holds;
        if v_holds then
            raise exception 'namespace "%" has actions or dead letters in its queue', p_namespace
                using errcode = 'HR232', hint = 'Handle or purge them first.';
        end if;
    end loop;
    perform headrace.revoke_namespace(g.role::text, p_namespace)
    from (select distinct g.role from headrace_internal.namespace_grant g join pg_roles r on r.oid = g.role where g.namespace = p_namespace) g;
    delete from headrace_internal.namespace n where n.namespace = p_namespace;
end
$$;
