-- pg_partman's schema, its major version (4 and 5 have different signatures), and the format of the time in the names of a topic's
-- partitions: null for a topic it does not manage. No row if it is not installed.
create or replace function headrace_internal.partman(p_topic_id integer) returns table (schema text, major integer, name_format text)
language plpgsql stable
as $$
begin
    select n.nspname::text, split_part(e.extversion, '.', 1)::integer into schema, major
    from pg_extension e join pg_namespace n on n.oid = e.extnamespace
    where e.extname = 'pg_partman';
    if found then
        execute format('select datetime_string from %I.part_config where parent_table = %L',
            schema, 'headrace_internal.log_' || p_topic_id) into name_format;
        return next;
    end if;
end
$$;

-- Returns the time partitions of a topic's log, oldest first, with their borders. The default partition has none.
create or replace function headrace.time_partitions(p_topic_id integer, p_caller headrace_internal.caller default current_user)
returns table (name regclass, from_at timestamptz, to_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'admin', 'topic', p_topic_id);
    return query select b.name, b.border[1]::timestamptz, b.border[2]::timestamptz
    from (
        select i.inhrelid::regclass as name,
            regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''(.+)''\) TO \(''(.+)''\)') as border
        from pg_class b
        join pg_inherits i on i.inhparent = b.oid
        join pg_class c on c.oid = i.inhrelid
        -- Ask the catalog: to_regclass needs usage on the schema.
        where b.relnamespace = 'headrace_internal'::regnamespace and b.relname = 'log_' || p_topic_id
    ) b
    where b.border is not null
    order by 2;
end
$$;

-- Creates the time partitions for a moment and p_ahead widths ahead, the latter through pg_partman if it manages the topic. All get
-- `replica identity full`, without which an erasure fails while a publication publishes them; pg_partman does not pass it on.
-- Locks: share update exclusive on the topic's branch while attaching, so readers and writers continue. With pg_partman also the
-- default partition, access exclusive, as every new partition beside it does; see headrace_internal.lock_briefly.
-- Runs as the owner: a node may not create or drop tables. Where pg_partman manages the topic, it leaves this search path behind in
-- the session; the sessions of nodes have it anyway.
-- Calls: partman, lock_briefly, time_partitions.
create or replace function headrace_internal.extend_log(p_topic_id integer, p_at timestamptz, p_ahead integer default 2) returns timestamptz
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
-- Borders do not move with the session's time zone.
set timezone = 'UTC'
set default_tablespace = ''
set default_table_access_method = 'heap'
as $$
declare
    v_branch  text := 'log_' || p_topic_id;
    v_partman record;
    v_default regclass;
    v_width   text;
    v_from    timestamptz;
    v_to      timestamptz;
    v_name    text;
    v_leaf    regclass;
    v_until   timestamptz;
begin
    select t.time_partition into strict v_width from headrace_internal.topic t where t.topic_id = p_topic_id;
    select p.schema, p.name_format into v_partman from headrace_internal.partman(p_topic_id) p;
    if v_partman.name_format is not null and p_ahead > 0 then
        select p.partdefid::regclass into v_default
        from pg_partitioned_table p
        where p.partrelid = to_regclass(format('headrace_internal.%I', v_branch)) and p.partdefid <> 0;
        if found then
            -- Here, because pg_partman hides the code of an error, and with it that the lock was not available.
            perform headrace_internal.lock_briefly(v_default);
        end if;
        execute format('select %I.run_maintenance(p_parent_table := %L, p_analyze := false)',
            v_partman.schema, 'headrace_internal.' || v_branch);
    end if;
    for i in 0 .. p_ahead loop
        v_from := date_trunc(v_width, p_at) + i * ('1 ' || v_width)::interval;
        v_to := v_from + ('1 ' || v_width)::interval;
        continue when exists (
            select from headrace.time_partitions(p_topic_id) p where p.from_at < v_to and p.to_at > v_from);
        v_name := v_branch || '_p' || to_char(v_from, coalesce(v_partman.name_format, 'YYYYMMDD'));
        execute format('create table headrace_internal.%I (like headrace_internal.%I)', v_name, v_branch);
        execute format('alter table headrace_internal.%I attach partition headrace_internal.%I for values from (%L) to (%L)',
            v_branch, v_name, v_from, v_to);
    end loop;
    for v_leaf in
        select c.oid
        from pg_partition_tree(to_regclass(format('headrace_internal.%I', v_branch))) t
        join pg_class c on c.oid = t.relid
        where t.isleaf and c.relreplident <> 'f'
    loop
        execute format('alter table %s replica identity full', v_leaf);
    end loop;
    select max(p.to_at) into v_until from headrace.time_partitions(p_topic_id) p;
    update headrace_internal.topic t set log_until = v_until where t.topic_id = p_topic_id;
    return v_until;
end
$$;

-- Creates the time partitions for the events that wait in the outbox up to the id p_bound (null: all), in a topic on the event clock.
-- p_time is the time of its newest event, null for an empty log. Returns where the partitions end and up to which id the events fit
-- into p_time_partitions_max of them, so that a sparse backfill takes many steps with few locks each instead of one with too many.
-- Locks: what headrace_internal.extend_log locks. Index: outbox_order.
-- Calls: clamp_time, extend_log.
create or replace function headrace_internal.extend_log_to_events(
    p_topic headrace_internal.topic, p_time timestamptz, p_bound bigint, p_time_partitions_max integer,
    out bound bigint, out until timestamptz, out time_partitions integer
)
language plpgsql volatile
set timezone = 'UTC'
as $$
declare
    v_step  interval := '1 ' || p_topic.time_partition;
    v_last  timestamptz := date_trunc(p_topic.time_partition, p_time);
    v_parts timestamptz[];
    v_fits  boolean;
    v_until bigint;
begin
    select max(r.id) filter (where r.rank <= p_time_partitions_max), bool_and(r.rank <= p_time_partitions_max),
        array_agg(distinct r.from_at order by r.from_at) filter (where r.rank <= p_time_partitions_max)
    into v_until, v_fits, v_parts
    from (
        select w.id, w.from_at, dense_rank() over (order by w.from_at) as rank
        from (
            select o.id, date_trunc(p_topic.time_partition, greatest(p_time, p_topic.timers_to,
                max(headrace_internal.clamp_time(o.emitted_at)) over (order by o.id))) as from_at
            from headrace_internal.outbox o
            where o.topic_id = p_topic.topic_id and o.id <= coalesce(p_bound, 9223372036854775807)
        ) w
    ) r;
    bound := case when v_fits then p_bound else v_until end;
    time_partitions := cardinality(v_parts);
    until := v_last + v_step;
    for i in 1 .. time_partitions loop
        -- The newest event lies in a partition that exists.
        continue when v_parts[i] = v_last;
        perform headrace_internal.extend_log(p_topic.topic_id, v_parts[i], p_ahead => case when i = time_partitions then 2 else 0 end);
        until := v_parts[i] + case when i = time_partitions then 3 else 1 end * v_step;
    end loop;
end
$$;

-- Attaches the branch of a topic to the log, before its first event. Not when the topic is created: the lock on the log lasts to the
-- end of the transaction, and that of a user may stay open for long, in front of the new topics of every namespace.
-- Runs as the owner: a node may not alter tables.
-- Locks: the branch, access exclusive, for which it waits at most 10 ms: whoever reads the empty branch of his own topic delays only
-- that topic. The log, share update exclusive, so readers and writers of other topics continue.
create or replace function headrace_internal.attach_log(p_topic_id integer) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set default_tablespace = ''
set lock_timeout = '10ms'
as $$
declare
    v_branch text := 'log_' || p_topic_id;
begin
    execute format('lock table headrace_internal.%I in access exclusive mode', v_branch);
    execute format('alter table headrace_internal.log attach partition headrace_internal.%I for values in (%L)', v_branch, p_topic_id);
    update headrace_internal.topic t set attached = true where t.topic_id = p_topic_id;
end
$$;
