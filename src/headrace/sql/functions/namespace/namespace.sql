-- Creates a namespace. Raises HR231 when it is there already.
create or replace function headrace.create_namespace(p_namespace text) returns void
language plpgsql volatile
as $$
begin
    insert into headrace.namespace (namespace) values (p_namespace) on conflict on constraint namespace_pkey do nothing;
    if not found then
        raise exception 'namespace "%" is already there', p_namespace
            using errcode = 'HR231', hint = 'Use it, or choose another name.';
    end if;
end
$$;

-- Drops an empty namespace with its grants. Refused (HR232) while it has topics, or actions wait in its queue.
create or replace function headrace.drop_namespace(p_namespace text) returns void
language plpgsql volatile
as $$
declare
    v_topics text;
    v_role   regrole;
begin
    perform headrace.namespace_exists(p_namespace);
    if p_namespace = 'default' then
        raise exception 'namespace "default" is always there' using errcode = 'HR232';
    end if;
    select string_agg(t.topic, ', ' order by t.topic) into v_topics
    from (select topic from headrace.topic where namespace = p_namespace order by topic limit 10) t;
    if v_topics is not null then
        raise exception 'namespace "%" has topics: %', p_namespace, v_topics
            using errcode = 'HR232', hint = 'Drop them first.';
    end if;
    if headrace.queue_holds(p_namespace) then
        raise exception 'namespace "%" has actions or dead letters in its queue', p_namespace
            using errcode = 'HR232', hint = 'Handle or purge them first.';
    end if;
    for v_role in
        select distinct g.role from headrace.namespace_grant g join pg_roles r on r.oid = g.role where g.namespace = p_namespace
    loop
        perform headrace.revoke_namespace(v_role::text, p_namespace);
    end loop;
    delete from headrace.namespace n where n.namespace = p_namespace;
end
$$;

-- Refuses a namespace that is not there: raises HR131.
create or replace function headrace.namespace_exists(p_namespace text) returns void
language plpgsql stable
as $$
declare
    v_known text;
begin
    if not exists (select from headrace.namespace n where n.namespace = p_namespace) then
        select string_agg(n.namespace, ', ' order by n.namespace) into v_known
        from (select namespace from headrace.namespace order by namespace limit 10) n;
        raise exception 'there is no namespace "%"', p_namespace
            using errcode = 'HR131',
                hint = format('Create it: select headrace.create_namespace(%L). Known namespaces: %s.', p_namespace, v_known);
    end if;
end
$$;

-- Does anything wait in a namespace's action queue, or lie in its dead letters? False where there is no queue.
create or replace function headrace.queue_holds(p_namespace text) returns boolean
language plpgsql stable
as $$
declare
    v_table regclass;
    v_found boolean;
begin
    for v_table in select q.found from headrace.queue_tables(p_namespace) q (found) loop
        execute format('select exists (select from %s)', v_table) into v_found;
        if v_found and v_table::text !~ '\ma_' then
            return true;
        end if;
    end loop;
    return false;
end
$$;

-- The tables of a namespace's action queue: queue and dead letters, and pgmq's archives of both. None where it has no queue.
create or replace function headrace.queue_tables(p_namespace text) returns setof regclass
language sql stable
as $$
    select t.found
    from unnest(array['q_hr_%s', 'q_hr_%s_dlq', 'a_hr_%s', 'a_hr_%s_dlq']) n (pattern)
    cross join lateral to_regclass(format('pgmq.%I', format(n.pattern, p_namespace))) t (found)
    where t.found is not null
$$;
