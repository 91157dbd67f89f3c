-- Does a granted level include another one? 'work' includes consume, 'admin' includes all, and every level includes 'any'.
-- The body is bound when the function is created: views call it with the reader's search path, where "=" may mean anything.
create or replace function headrace_internal.level_includes(p_granted text, p_level text) returns boolean
language sql immutable
return p_level in (p_granted, 'any') or p_granted = 'admin' or (p_granted = 'work' and p_level = 'consume');

-- Is a role the owner of headrace, one of its members, a superuser, or the role of a node? Such a role holds every level.
-- Never null. Raises 42501 for a null caller: a null of the domain headrace_internal.caller passes the domain's checks, for example as
-- the result of a subquery without rows. Every check of rights comes through here, unless the caller is the owner.
-- Call it only in functions that run as the owner: it takes current_user to be the owner.
create or replace function headrace_internal.above_namespaces(p_role name) returns boolean
language plpgsql stable
as $$
begin
    if p_role is null then
        raise exception 'permission denied: the caller is null'
            using errcode = '42501', hint = 'Leave p_caller out: its default is the role that calls.';
    end if;
    return p_role = current_user or pg_has_role(p_role, current_user, 'usage')
        or exists (select from headrace_internal.node_role n where pg_has_role(p_role, n.role, 'usage'));
end
$$;

-- Does the caller stand above namespaces: the owner of headrace, one of its members, a superuser, or the role of a node? The public
-- views show it every namespace.
-- Calls: above_namespaces.
create or replace function headrace_internal.caller_is_owner(p_caller headrace_internal.caller default current_user) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return headrace_internal.above_namespaces(p_caller);
end
$$;

-- Does the caller hold a level in a namespace ('any': one of them)? The owner, its members and superusers hold all. Never null; raises
-- 42501 for a null caller. The part that headrace_internal.authorize and authorize_id share: other functions call these.
-- Call them only in functions that run as the owner: they take current_user to be the owner.
-- Calls: above_namespaces, level_includes.
create or replace function headrace_internal.holds_level(p_caller name, p_level text, p_namespace text) returns boolean
language plpgsql stable
as $$
begin
    if p_caller = current_user then
        return true;
    end if;
    return headrace_internal.above_namespaces(p_caller) or exists (
        select from headrace_internal.namespace_grant g
        where g.namespace = p_namespace and headrace_internal.level_includes(g.level, p_level) and pg_has_role(p_caller, g.role, 'usage'));
end
$$;

-- Returns the namespaces in which the caller holds a level, in order; raises 42501 for a null caller. The first statement of functions that run
-- as the owner and pass over what the caller may not see, instead of raising.
-- Calls: above_namespaces, level_includes.
create or replace function headrace_internal.authorized_namespaces(p_caller name, p_level text) returns text[]
language plpgsql stable
as $$
begin
    if headrace_internal.above_namespaces(p_caller) then
        return array(select n.namespace from headrace_internal.namespace n order by n.namespace);
    end if;
    return array(
        select g.namespace from headrace_internal.namespace_grant g
        where headrace_internal.level_includes(g.level, p_level) and pg_has_role(p_caller, g.role, 'usage')
        group by g.namespace order by g.namespace);
end
$$;

-- Returns the namespace a call works in, or raises 42501 when the caller does not hold the level in it. A call that names a topic
-- gets HR101 where the caller holds no level at all: a topic it must not see looks like one that does not exist.
-- Raises 42501 for a null caller, too. The first statement of every function that runs as the owner; the alternatives are
-- headrace_internal.authorize_id and headrace_internal.authorized_namespaces.
-- Calls: current_namespace, holds_level, raise_unknown_topic.
create or replace function headrace_internal.authorize(
    p_caller name, p_level text, p_namespace text, p_topic text default null
) returns text
language plpgsql stable
as $$
declare
    v_namespace text := headrace.current_namespace(p_namespace);
begin
    if headrace_internal.holds_level(p_caller, p_level, v_namespace) is true then
        return v_namespace;
    end if;
    if p_topic is not null and headrace_internal.holds_level(p_caller, 'any', v_namespace) is not true then
        perform headrace_internal.raise_unknown_topic(p_topic, v_namespace, p_list => false);
    end if;
    raise exception 'permission denied for namespace "%"', v_namespace
        using errcode = '42501', hint = format('Role %s needs the level %s in it: see headrace.grant_namespace.', quote_ident(p_caller), p_level);
end
$$;

-- Raises 42501 when the caller does not hold the level in the namespace of a topic, consumer, dead letter, relay, schedule or
-- access token. An id that does not exist, and a null caller, give the same error. The first statement of functions that run as the owner and take an id.
-- Calls: holds_level.
create or replace function headrace_internal.authorize_id(p_caller name, p_level text, p_kind text, p_id bigint) returns void
language plpgsql stable
as $$
declare
    v_namespace text;
begin
    if p_caller = current_user then
        return;
    end if;
    v_namespace := case p_kind
        when 'topic' then (select t.namespace from headrace_internal.topic t where t.topic_id = p_id)
        when 'relay' then (select r.namespace from headrace_internal.relay r where r.relay_id = p_id)
        when 'schedule' then (select s.namespace from headrace_internal.schedule s where s.schedule_id = p_id)
        when 'access token' then (select a.namespace from headrace_internal.access_token a where a.token_id = p_id)
        when 'consumer' then (
            select t.namespace from headrace_internal.consumer c join headrace_internal.topic t on t.topic_id = c.topic_id where c.consumer_id = p_id)
        when 'dead letter' then (
            select t.namespace from headrace_internal.dead_letter d
            join headrace_internal.consumer c on c.consumer_id = d.consumer_id
            join headrace_internal.topic t on t.topic_id = c.topic_id where d.dead_letter_id = p_id) end;
    -- The consumers of rules and correlators belong to these, whose administrators alone may touch them.
    if p_kind = 'consumer' and exists (
            select from headrace_internal.consumer c where c.consumer_id = p_id and c.consumer like 'headrace.%') then
        p_level := 'admin';
    end if;
    if v_namespace is null or headrace_internal.holds_level(p_caller, p_level, v_namespace) is not true then
        raise exception 'permission denied for % %', p_kind, p_id
            using errcode = '42501', hint = format('It takes the level %s in its namespace: see headrace.grant_namespace.', p_level);
    end if;
end
$$;
