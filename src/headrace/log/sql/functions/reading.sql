-- Returns the time partition that a topic's events are appended to now; null where it is not certain: on the events' clock, where pg_partman
-- uses other names, or after the server's clock went back, so that a later partition has events.
-- It is found by its name, because every other way costs more than the look-up that wants it: a query by the topic's id plans a quarter of a
-- millisecond (measured). In each form of names, the order of the names is the order of the times.
-- p_at: the time, where the caller has it.
create or replace function headrace_internal.current_log_partition(
    p_topic_id integer, p_clock text, p_width text, p_at timestamptz default headrace.clock()
) returns regclass
language plpgsql stable
as $$
declare
    -- Borders are in UTC.
    v_start  timestamp := date_trunc(p_width, p_at at time zone 'UTC');
    v_prefix text := 'log_' || p_topic_id || '_p';
    -- The second form is pg_partman 4's.
    v_name   text := v_prefix || to_char(v_start, 'YYYYMMDD');
    v_now    regclass := to_regclass('headrace_internal.' || v_name);
begin
    if p_clock <> 'server' then
        return null;
    end if;
    if v_now is null then
        v_name := v_prefix || to_char(v_start, case p_width when 'month' then 'YYYY_MM' when 'week' then 'IYYY"w"IW' else 'YYYY_MM_DD' end);
        v_now := to_regclass('headrace_internal.' || v_name);
    end if;
    return case when v_now is not null and not exists (
        select from pg_inherits n
        join pg_inherits i on i.inhparent = n.inhparent
        join pg_class c on c.oid = i.inhrelid
        where n.inhrelid = v_now and c.relname > v_name collate "C" and pg_relation_size(c.oid) > 0) then v_now end;
end
$$;

-- True if the whole log has few enough tables that a plan over all of them is cheap to make and to lock. About 20 topics of monthly partitions.
-- Then a statement over headrace_internal.log is planned once per session: 10 µs a read. Otherwise the plan would lock the tables of
-- all topics, up to the end of the server's lock table, and a read names the topic's own branch and is planned each time: 80 µs.
-- The catalog's size stands for the number: about 50 bytes for each table and index of the log.
create or replace function headrace_internal.log_is_small() returns boolean
language sql stable
as $$
    select pg_relation_size('pg_catalog.pg_inherits'::regclass) <= 16384
$$;

-- Returns the newest position of a topic's log and its time; nulls for an empty log.
-- Read from the log itself: a row updated with every batch would bloat while a snapshot is held. In a large log from the time
-- partition that is written now, if it has events, else from the topic's own branch: see headrace_internal.log_is_small.
-- Planned for this topic each time: a plan for any topic would wait for a lock on another one's log.
-- Runs as the owner: a node has no right on a branch. Index: log_position, backwards.
-- Calls: log_is_small, current_log_partition.
create or replace function headrace_internal.read_head(
    p_topic_id integer, p_clock text, p_width text, out "position" bigint, out appended_at timestamptz
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    v_query text := 'select l.position, l.appended_at from %s l order by l.position desc limit 1';
    v_now   regclass;
begin
    if headrace_internal.log_is_small() then
        select l.position, l.appended_at into position, appended_at
        from headrace_internal.log l where l.topic_id = p_topic_id order by l.position desc limit 1;
        return;
    end if;
    v_now := headrace_internal.current_log_partition(p_topic_id, p_clock, p_width);
    if v_now is not null then
        execute format(v_query, v_now) into position, appended_at;
    end if;
    if position is null then
        execute format(v_query, format('headrace_internal.%I', 'log_' || p_topic_id)) into position, appended_at;
    end if;
end
$$;

-- Returns the newest position of a topic's log and its time; no row for an empty log. Index: log_position, backwards.
-- Calls: read_head.
create or replace function headrace.log_head(
    p_topic_id integer, p_caller headrace_internal.caller default current_user) returns table ("position" bigint, appended_at timestamptz
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    return query
    select h.position, h.appended_at
    from headrace_internal.topic t
    cross join lateral headrace_internal.read_head(t.topic_id, t.clock, t.time_partition) h
    where t.topic_id = p_topic_id and h.position is not null;
end
$$;

-- Returns the time of a topic's log: the server's clock, or, where events bring their own, that of the newest one.
-- Index: log_position backwards, for a topic of the second kind.
-- Calls: log_head.
create or replace function headrace.log_clock(
    p_topic_id integer, p_caller headrace_internal.caller default current_user
) returns timestamptz
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    return (
        select case when t.clock = 'server' then headrace.clock()
            else (select h.appended_at from headrace.log_head(t.topic_id) h) end
        from headrace_internal.topic t where t.topic_id = p_topic_id);
end
$$;

-- Returns the events of a topic after a position, in order, at most p_limit. Takes the level consume.
-- It names the topic's own branch of the log: headrace.log is planned for, and locks, the logs of all topics unless the statement has
-- the topic's id as a constant. Index: log_position.
create or replace function headrace.read_log(
    p_topic_id integer,
    p_after    bigint default 0,
    p_limit    integer default 1000,
    p_caller   headrace_internal.caller default current_user
) returns setof headrace.logged_event
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_topic text;
begin
    perform headrace_internal.authorize_id(p_caller, 'consume', 'topic', p_topic_id);
    select t.topic into v_topic from headrace_internal.topic t where t.topic_id = p_topic_id;
    if not found then
        return;
    end if;
    return query execute format(
        'select $1, l.* from headrace_internal.%I l where l.position > $2 order by l.position limit $3', 'log_' || p_topic_id)
    using v_topic, p_after, p_limit;
end
$$;

-- Returns the topics of a namespace whose log has an event, with its position in each. Takes the level consume.
-- One look-up per topic, each in a subtransaction that is rolled back: its locks end with it, however many topics there are. It takes
-- about 0.2 ms per topic. Index: log_event_id.
create or replace function headrace.find_event(
    p_event_id uuid, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns table (topic_id integer, "position" bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
begin
    for topic_id in select t.topic_id from headrace_internal.topic t where t.namespace = v_namespace order by t.topic_id loop
        position := null;
        begin
            execute format('select l.position from headrace_internal.%I l where l.event_id = $1 limit 1', 'log_' || topic_id)
            into position using p_event_id;
            -- Variables keep their values, locks do not.
            raise exception using errcode = 'HR000';
        exception
            -- A topic that has lost its log must not hide those that have theirs.
            when sqlstate 'HR000' or undefined_table then
                null;
        end;
        if position is not null then
            return next;
        end if;
    end loop;
end
$$;
