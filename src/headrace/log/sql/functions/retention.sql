-- Returns the consumers of a topic that have events up to a position before them, by name; null if there are none. Index: log_position.
-- It is not written in SQL: before PostgreSQL 18 such a function keeps its plan for the caller's loop, which drops partitions that are in it. It
-- queries the topic's own branch: a query on the whole log plans and locks every topic.
create or replace function headrace_internal.consumers_before(p_topic_id integer, p_position bigint) returns text
language plpgsql stable
as $$
declare
    v_names text;
begin
    execute format(
        'select string_agg(distinct c.consumer, '', '') from headrace_internal.consumer c '
        'join headrace_internal.cursor u on u.consumer_id = c.consumer_id '
        'where c.topic_id = $1 and u.position < $2 and exists (select from headrace_internal.%I l '
        'where l.position > u.position and l.position <= $2 and (u.partition = -1 or l.partition = u.partition))', 'log_' || p_topic_id)
    into v_names using p_topic_id, p_position;
    return v_names;
end
$$;

-- Drops the time partitions of a topic's log that ended before p_before, oldest first, and returns what it dropped and kept.
-- A partition stays while a consumer has not passed its last event, unless p_force; and, if the topic is archived, until the
-- archive holds all of it, even with p_force. kept_for names who it is kept for. Raises HR208 unless READ COMMITTED: an older
-- snapshot does not show the newest consumers.
-- Locks: the topic row; the branch and the dropped partitions, access exclusive, for which it waits at most 200 ms: readers queue
-- behind it. Index: log_position, at both ends of a partition.
-- Runs as the owner: a node may not create or drop tables. Where pg_partman manages the topic, it leaves this search path behind in
-- the session; the sessions of nodes have it anyway.
-- Calls: require_read_committed, partman, time_partitions, log_clock, consumers_before, is_archived.
create or replace function headrace.drop_expired(p_topic_id integer, p_before timestamptz, p_force boolean default false)
returns table (name text, from_at timestamptz, to_at timestamptz, events bigint, dropped boolean, kept_for text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
set timezone = 'UTC'
as $$
#variable_conflict use_column
declare
    v_part    record;
    v_first   bigint;
    v_last    bigint;
    v_archive boolean;
    v_partman record;
begin
    perform headrace_internal.require_read_committed('headrace.drop_expired');
    select p.schema, p.name_format into v_partman from headrace_internal.partman(p_topic_id) p;
    select t.archive into v_archive from headrace_internal.topic t where t.topic_id = p_topic_id for no key update;
    for v_part in
        select p.name, p.from_at, p.to_at from headrace.time_partitions(p_topic_id) p
        where p.to_at <= p_before and p.to_at <= headrace.log_clock(p_topic_id)
    loop
        name := v_part.name::text;
        from_at := v_part.from_at;
        to_at := v_part.to_at;
        execute format('select min(position), max(position) from %s', v_part.name) into v_first, v_last;
        -- Positions have no gaps.
        events := coalesce(v_last - v_first + 1, 0);
        kept_for := headrace_internal.consumers_before(p_topic_id, v_last);
        dropped := p_force or kept_for is null;
        if v_archive and not headrace.is_archived(p_topic_id, v_first, v_last) then
            dropped := false;
            kept_for := concat_ws(', ', kept_for, 'the archive');
        end if;
        if dropped then
            -- Here, because pg_partman hides the code of an error.
            execute format('lock table only headrace_internal.%I, %s in access exclusive mode', 'log_' || p_topic_id, v_part.name);
            -- A seek that was under way has read the log, so it has committed now, and may have moved a cursor back.
            kept_for := headrace_internal.consumers_before(p_topic_id, v_last);
            dropped := p_force or kept_for is null;
        end if;
        if dropped then
            update headrace_internal.topic t set dropped_to = greatest(t.dropped_to, v_last) where t.topic_id = p_topic_id;
            if v_partman.name_format is not null then
                execute format('select %I.drop_partition_time(p_parent_table := %L, p_retention := %L, p_keep_table := false,'
                        ' p_keep_index := false, p_reference_timestamp := %L)',
                    v_partman.schema, 'headrace_internal.log_' || p_topic_id, interval '0', v_part.to_at);
            end if;
            if to_regclass(v_part.name::text) is not null then
                execute format('drop table %s', v_part.name);
            end if;
        end if;
        return next;
        -- Nothing younger may go before it: the log has no holes.
        exit when not dropped;
    end loop;
end
$$;

-- Drops the branches of topics that were dropped, at most 20 at once, and returns how many. It acts only on what drop_topic has
-- recorded, never on what looks unused. A failure, for example while a long transaction reads the log, is recorded and tried again
-- at its retry_at: each attempt may hold up every reader for 200 ms.
-- Runs as the owner: a node's role may not drop a table.
-- Locks: the whole log and the branch, access exclusive, until the end of the transaction; it waits at most 200 ms.
-- Calls: clear_failure, record_failure.
create or replace function headrace_internal.drop_branches() returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
declare
    v_topic_id integer;
    v_branch   text;
    v_dropped  integer := 0;
begin
    for v_topic_id in
        select d.topic_id from headrace_internal.dropped_topic d
        where not exists (select from headrace_internal.failure f
            where f.kind = 'drop branch' and f.name = 'log_' || d.topic_id and f.retry_at > headrace.clock())
        limit 20
        for update skip locked
    loop
        v_branch := 'log_' || v_topic_id;
        begin
            execute format('drop table if exists headrace_internal.%I', v_branch);
            delete from headrace_internal.dropped_topic d where d.topic_id = v_topic_id;
            perform headrace_internal.clear_failure('drop branch', null, v_branch);
            v_dropped := v_dropped + 1;
        exception when others then
            perform headrace_internal.record_failure('drop branch', null, v_branch, format('%s (SQLSTATE %s)', sqlerrm, sqlstate),
                p_backoff_s => 10);
            -- The others would wait for the same lock.
            exit;
        end;
    end loop;
    return v_dropped;
end
$$;

-- Applies the retention of every topic, creates time partitions ahead, and drops the branches of dropped topics. A node calls it now
-- and then, or cron does. A topic that a sequencer or another node holds, or whose log is being read, is left for the next call. A
-- topic that fails is recorded in headrace_internal.failure and left out until its retry_at; the others go on.
-- Raises HR208 unless READ COMMITTED. Locks: the row of a topic with something to do (no key update, skip locked), and what
-- headrace_internal.extend_log, headrace.drop_expired and headrace_internal.drop_branches lock. It waits at most 200 ms for a lock
-- and begins nothing after 2 s, because it keeps the locks to its end; chance decides which topics come first.
-- Calls: require_read_committed, log_clock, time_partitions, extend_log, drop_expired, clear_failure, record_failure, drop_branches.
create or replace function headrace.maintain_log()
returns table (topic text, name text, events bigint, dropped boolean, kept_for text)
language plpgsql volatile set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
#variable_conflict use_column
declare
    v_topic  record;
    v_before timestamptz;
    v_rows   jsonb;
begin
    perform headrace_internal.require_read_committed('headrace.maintain_log');
    for v_topic in
        select t.topic_id, t.namespace, t.topic, t.retention, f.kind is not null as has_failed,
            t.clock = 'server' and t.log_until < headrace.clock() + ('1 ' || t.time_partition)::interval as ends_soon
        from headrace_internal.topic t
        left join headrace_internal.failure f on f.kind = 'maintain' and f.namespace = t.namespace and f.name = t.topic
        where f.retry_at is null or f.retry_at <= headrace.clock()
        order by random()
    loop
        exit when clock_timestamp() > statement_timestamp() + interval '2 seconds';
        -- Returned after the block: rows returned inside it would stay when it is rolled back.
        v_rows := null;
        begin
            v_before := headrace.log_clock(v_topic.topic_id) - v_topic.retention;
            if v_topic.ends_soon or exists (select from headrace.time_partitions(v_topic.topic_id) p where p.to_at <= v_before) then
                perform from headrace_internal.topic t where t.topic_id = v_topic.topic_id for no key update skip locked;
                if found and v_topic.ends_soon then
                    perform headrace_internal.extend_log(v_topic.topic_id, headrace.clock());
                end if;
                if found then
                    select jsonb_agg(d) into v_rows from headrace.drop_expired(v_topic.topic_id, v_before) d;
                end if;
            end if;
            if v_topic.has_failed then
                perform headrace_internal.clear_failure('maintain', v_topic.namespace, v_topic.topic);
            end if;
        exception
            when lock_not_available then
                raise notice 'the log of topic "%" is in use; its maintenance waits for the next time', v_topic.topic;
            when others then
                perform headrace_internal.record_failure('maintain', v_topic.namespace, v_topic.topic,
                    format('%s (SQLSTATE %s)', sqlerrm, sqlstate), p_backoff_s => 10);
        end;
        return query
        select v_topic.topic, d.name, d.events, d.dropped, d.kept_for
        from jsonb_to_recordset(v_rows) d (name text, events bigint, dropped boolean, kept_for text);
    end loop;
    delete from headrace_internal.failure f where f.last_at < headrace.clock() - interval '1 day' and f.retry_at < headrace.clock();
    -- Last, because it locks the whole log until the end of the transaction.
    perform headrace_internal.drop_branches();
end
$$;
