-- Returns the epoch of all logs of this server: its system identifier and its timeline. A promoted standby and a restore to a point in time
-- begin a new timeline, and only then can positions come again with other events. 'unknown' where the server does not tell.
create or replace function headrace.log_epoch() returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return (select s.system_identifier from pg_control_system() s) || ':' || case
        when pg_is_in_recovery() then (select c.timeline_id from pg_control_checkpoint() c)
        -- Of the WAL being written: the checkpoint's timeline may be the old one for a while after a promotion.
        else ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer end;
exception when insufficient_privilege or feature_not_supported or undefined_function then
    return 'unknown';
end
$$;

-- Records the epoch of the logs when it is new, and returns the one before it; null if nothing changed. Nodes call it.
-- Calls: log_epoch.
create or replace function headrace_internal.record_epoch() returns text
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    v_before text := (select e.epoch from headrace_internal.log_epoch e order by e.number desc limit 1);
    v_epoch  text := headrace.log_epoch();
begin
    if v_epoch is not distinct from v_before then
        return null;
    end if;
    insert into headrace_internal.log_epoch (epoch) values (v_epoch) on conflict on constraint log_epoch_once do nothing;
    return case when found then v_before end;
end
$$;

-- Returns the topics that have rows in the outbox, one index probe per topic and slot. Index: outbox_order.
create or replace function headrace_internal.outbox_topics() returns setof integer
language sql stable
as $$
    with recursive waiting (topic_id) as (
        (select o.topic_id from headrace_internal.outbox o order by o.topic_id limit 1)
        union all
        select (select o.topic_id from headrace_internal.outbox o where o.topic_id > w.topic_id order by o.topic_id limit 1)
        from waiting w where w.topic_id is not null
    )
    select w.topic_id from waiting w where w.topic_id is not null
$$;

-- Which of these event ids a topic's log has already. Index: log_event_id.
-- It names the topic's own branch, whatever the size of the log: a plan over the whole log would wait for a lock on another topic, and
-- a plan for these ids by the whole log costs more. Runs as the owner: a node has no right on a branch.
create or replace function headrace_internal.known_events(p_topic_id integer, p_event_ids uuid[]) returns setof uuid
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    return query execute format('select l.event_id from headrace_internal.%I l where l.event_id = any ($1)', 'log_' || p_topic_id)
    using p_event_ids;
end
$$;

-- Moves the oldest p_batch outbox rows of a topic that the caller has locked into its log, but only those of the first 8 MB as they
-- are stored (and at least one), so that large payloads make no long turn; see headrace.sequence. On the event clock, only those that fit into p_time_partitions_max time partitions; time_partitions is the number it has appended to, 0 on
-- the server's clock.
-- p_rests: see headrace.sequence. p_hands_over: it returns the events too, unless they are more than 1 000 or 1 MB.
-- Locks: what headrace_internal.attach_log locks, for the first event, and headrace_internal.extend_log, if partitions are missing. Indexes: outbox_order for the rows, log_position
-- backwards for the head, log_event_id for known ids; outbox_order must be used whatever the statistics of this fast-changing table say.
-- Calls: attach_log, read_head, extend_log, extend_log_to_events, clamp_time, known_events, key_hash.
create or replace function headrace_internal.sequence_topic(
    p_topic headrace_internal.topic, p_batch integer, p_time_partitions_max integer, p_rests boolean, p_hands_over boolean,
    out first_position bigint, out events integer, out duplicates integer, out time_partitions integer, out rows headrace_internal.log[]
)
language plpgsql volatile
as $$
declare
    v_head  bigint;
    v_time  timestamptz;
    v_rows  integer;
    v_bytes bigint;
    v_bound bigint;
    v_until timestamptz;
    v_moved integer;
begin
    if not p_topic.attached then
        perform headrace_internal.attach_log(p_topic.topic_id);
    end if;
    select h.position, h.appended_at into v_head, v_time
    from headrace_internal.read_head(p_topic.topic_id, p_topic.clock, p_topic.time_partition) h;
    v_head := coalesce(v_head, p_topic.dropped_to);
    if p_topic.asleep and not p_rests then
        update headrace_internal.topic t set asleep = false where t.topic_id = p_topic.topic_id;
    end if;
    select max(w.id), count(*), sum(pg_column_size(w.payload) + pg_column_size(w.headers)) into v_bound, v_rows, v_bytes
    from (
        select o.id, o.payload, o.headers
        from headrace_internal.outbox o where o.topic_id = p_topic.topic_id order by o.id limit p_batch
    ) w;
    if v_bytes > 8 * 1024 * 1024 then
        select w.id into v_bound
        from (
            select o.id,
                sum(pg_column_size(o.payload) + pg_column_size(o.headers)) over (order by o.id rows unbounded preceding) as bytes
            from headrace_internal.outbox o where o.topic_id = p_topic.topic_id
        ) w
        where w.bytes > 8 * 1024 * 1024 limit 1;
    elsif v_rows < p_batch then
        -- Rows that become visible until they are moved come too.
        v_bound := null;
    end if;
    time_partitions := 0;
    -- The log's time never goes back, whatever the server's clock does, nor behind a timer that has fired; and it begins
    -- with the topic: before that there is no time partition.
    if p_topic.clock = 'server' then
        v_time := greatest(v_time, p_topic.timers_to, p_topic.created_at, headrace.clock());
        if v_time >= p_topic.log_until then
            perform headrace_internal.extend_log(p_topic.topic_id, v_time);
        end if;
    else
        select e.bound, e.until, e.time_partitions into v_bound, v_until, time_partitions
        from headrace_internal.extend_log_to_events(p_topic, v_time, v_bound, p_time_partitions_max) e;
        v_time := greatest(v_time, p_topic.timers_to);
    end if;

    with moved as (
        delete from headrace_internal.outbox o
        where o.topic_id = p_topic.topic_id and o.id <= coalesce(v_bound, 9223372036854775807)
        returning o.id, o.event_id, o.type, o.key, o.payload, o.headers,
            -- Publishing rejects a time beyond the limits; one that got here all the same must not stop the topic or its readers.
            headrace_internal.clamp_time(o.emitted_at) as emitted_at, o.producer
    ), known as materialized (
        select k.event_id from headrace_internal.known_events(p_topic.topic_id, array(select m.event_id from moved m)) k (event_id)
    ), repeated as materialized (
        select m.event_id, min(m.id) as first_id from moved m group by m.event_id having count(*) > 1
    ), numbered as (
        select v_head + row_number() over (order by m.id) as position,
            -- An event that has just become visible may lie beyond the partitions created a moment ago.
            case when p_topic.clock = 'server' then v_time else least(
                greatest(v_time, max(m.emitted_at) over (order by m.id)), v_until - interval '1 microsecond') end as appended_at,
            m.event_id, m.type, m.key, m.payload, m.headers, m.emitted_at, m.producer
        from moved m
        -- Hashed: almost always both are empty.
        where m.event_id not in (select k.event_id from known k)
            and not exists (select from repeated r where r.event_id = m.event_id and r.first_id < m.id)
    ), appended as (
        insert into headrace_internal.log
            (position, appended_at, emitted_at, topic_id, partition, event_id, type, key, payload, headers, producer)
        select n.position, n.appended_at, n.emitted_at, p_topic.topic_id,
            case when p_topic.partitions = 1 then 0
                when n.key is null then n.position % p_topic.partitions
                else headrace_internal.key_hash(n.key) % p_topic.partitions end,
            n.event_id, n.type, n.key, n.payload, n.headers, n.producer
        from numbered n
        order by n.position
        returning log
    )
    select (select count(*) from moved), count(*),
        case when p_hands_over and v_rows <= 1000 and v_bytes <= 1024 * 1024 then array_agg(a.log order by (a.log).position) end
    into v_moved, events, rows
    from appended a;
    first_position := v_head + 1;
    duplicates := v_moved - events;
    if p_rests then
        update headrace_internal.topic t set asleep = true, asleep_at = statement_timestamp(), asleep_head = v_head + events
        where t.topic_id = p_topic.topic_id;
    end if;
end
$$;

-- Moves the outbox rows of topics into their logs, each topic in a subtransaction of its own: one that fails is recorded in
-- headrace_internal.failure and does not stop the others. The topics come in the order of the array. Those that other sequencers hold,
-- or whose retry is not due yet, are left out; after 0.2 s also those of a namespace that has had a topic.
-- Locks: the topic rows (no key update, skip locked). Index: failure_pkey; see headrace_internal.sequence_topic.
-- Calls: sequence_topic, clear_failure, record_failure.
create or replace function headrace_internal.sequence_alone(p_topic_ids integer[], p_batch integer, p_rests boolean)
returns headrace_internal.topic_move[]
language plpgsql volatile
as $$
declare
    v_topic      record;
    v_moved      record;
    v_partitions integer := 32;
    v_served     text[] := '{}';
    v_moves      headrace_internal.topic_move[];
begin
    for v_topic in
        select t as topic_row, t.topic_id, t.namespace, t.topic, f.name is not null as has_failed
        from headrace_internal.topic t
        left join headrace_internal.failure f on f.kind = 'sequence' and f.namespace = t.namespace and f.name = t.topic
        where t.topic_id = any (p_topic_ids) and (f.retry_at is null or f.retry_at <= headrace.clock())
        order by array_position(p_topic_ids, t.topic_id)
        for no key update of t skip locked
    loop
        continue when v_topic.namespace = any (v_served) and clock_timestamp() > statement_timestamp() + interval '0.2 seconds';
        v_served := v_served || v_topic.namespace;
        begin
            v_moved := headrace_internal.sequence_topic(v_topic.topic_row, p_batch, greatest(v_partitions, 1), p_rests, false);
            if v_topic.has_failed then
                perform headrace_internal.clear_failure('sequence', v_topic.namespace, v_topic.topic);
            end if;
            v_partitions := v_partitions - v_moved.time_partitions;
            v_moves := v_moves || row(v_topic.topic_row, v_moved.first_position, v_moved.events, v_moved.duplicates, null)::headrace_internal.topic_move;
        exception when others then
            perform headrace_internal.record_failure('sequence', v_topic.namespace, v_topic.topic,
                format('%s (SQLSTATE %s)', sqlerrm, sqlstate),
                p_backoff_s => case when sqlstate = '55P03' then 0.1 else 1 end,
                p_backoff_max_s => case when sqlstate = '55P03' then 5 else 30 end);
        end;
    end loop;
    return v_moves;
end
$$;

-- One step of the sequencer: moves committed outbox rows into the log, for up to 100 topics with rows that no other sequencer holds, the
-- oldest p_batch rows (and a few that became visible meanwhile), in id order, with the positions after the head. One transaction;
-- consumers are notified once, at its commit. Namespaces take turns, so that what one has waiting delays no other; after 0.2 s only topics
-- of namespaces that had none yet begin, so that a call stays short: what it has moved is visible only after its commit. Topics that failed
-- before come last: one of them, or as many as there is time for if no other topic moves. A topic that fails does not stop the others: it
-- is rolled back alone, recorded in headrace_internal.failure, and left out until its retry_at (1 s, growing to 30 s; after a lock timeout
-- 0.1 to 5 s). All topics share one subtransaction, for its price; only after a failure each gets its own. A partition of the log costs a
-- lock on it and on each of its indexes, so one call appends to at most 32 time partitions of topics on the event clock (but at least one
-- per topic); the events after that wait for the next call.
-- With p_rests the topics it serves are asleep afterwards, so that their publishers notify, for a sequencer that waits for that. Otherwise
-- they are awake, and the sequencer must poll them.
-- Returns the events that it has appended to topics of p_handed_over, for consumers of the same node, unless these are many, and behind the
-- events of each topic a row without event_id: its position is that of the first event, and its payload says for the topic how many
-- "events" it has appended and "duplicates" dropped, how many are "handed" over with how many "bytes", its "partitions", for how long its consumers let events gather, its number
-- of "erasures", on which "server", for how long the step has worked to append, "work_s", and which rules and correlators were "served".
-- Of p_pass_topics, rules (p_pass_correlators is 0 at that place) and simple correlators that are caught up work on the events in this
-- transaction: see headrace_internal.run_pass. Not on more than 100 events of a topic, nor in a step that is full or after a topic has failed:
-- then the loops of the nodes work on them beside each other.
-- Raises HR208 unless READ COMMITTED: by an older snapshot positions would be used twice. Its plans are generic: a step is often shorter
-- than planning it. Reads of the log are planned for their topic: see headrace_internal.read_head and headrace_internal.known_events.
-- Locks: the topic rows (no key update, skip locked) until the end of the transaction; it waits at most 200 ms for any other lock, and 10
-- ms for one that a role of the topic's namespace may hold. Index: failure_pkey; see headrace_internal.sequence_topic.
-- Calls: require_read_committed, outbox_topics, sequence_topic, sequence_alone, run_pass, notify.
create or replace function headrace_internal.sequence_step(
    p_batch integer, p_rests boolean, p_handed_over integer[] default '{}', p_pass_topics integer[] default '{}',
    p_pass_correlators bigint[] default '{}', p_pass_ms double precision default 20
) returns setof headrace.logged_event
language plpgsql volatile set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set lock_timeout = '200ms'
as $$
declare
    v_waiting    integer[];
    v_topic      record;
    v_moved      record;
    v_partitions integer := 32;
    v_served     text[] := '{}';
    v_alone      integer[];
    v_moves      headrace_internal.topic_move[];
    v_move       headrace_internal.topic_move;
    v_row        headrace.logged_event;
    v_notify     text;
    v_topic_ids  integer[];
    v_firsts     bigint[];
    v_lasts      bigint[];
    v_is_full    boolean := false;
    v_work_s     double precision;
    v_passed     jsonb;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform headrace_internal.require_read_committed('headrace.sequence');
    end if;
    v_waiting := array(select w.topic_id from headrace_internal.outbox_topics() w (topic_id) order by random());
    if v_waiting = '{}' then
        return;
    end if;
    if cardinality(v_waiting) > 10 then
        -- First one topic of each namespace, then a second one of those that have more, and so on; within a turn chance decides.
        v_waiting := array(
            select w.topic_id
            from (
                select t.topic_id, row_number() over (partition by t.namespace order by random()) as turn
                from headrace_internal.topic t where t.topic_id = any (v_waiting)
            ) w
            order by w.turn, random() limit 100);
    end if;
    begin
        for v_topic in
            select t as topic_row, t.topic_id, t.namespace, f.retry_at
            from headrace_internal.topic t
            left join headrace_internal.failure f on f.kind = 'sequence' and f.namespace = t.namespace and f.name = t.topic
            where t.topic_id = any (v_waiting) order by array_position(v_waiting, t.topic_id)
            for no key update of t skip locked
        loop
            continue when v_topic.namespace = any (v_served) and clock_timestamp() > statement_timestamp() + interval '0.2 seconds';
            if v_topic.retry_at is null then
                v_served := v_served || v_topic.namespace;
                v_moved := headrace_internal.sequence_topic(v_topic.topic_row, p_batch, greatest(v_partitions, 1), p_rests,
                    v_topic.topic_id = any (p_handed_over));
                v_partitions := v_partitions - v_moved.time_partitions;
                v_moves := v_moves || row(v_topic.topic_row, v_moved.first_position, v_moved.events, v_moved.duplicates, v_moved.rows)::headrace_internal.topic_move;
                v_is_full := v_is_full or v_moved.events + v_moved.duplicates >= p_batch;
                if v_topic.topic_id = any (p_pass_topics) and v_moved.events between 1 and 100 and (v_topic.topic_row).engine = 'database' then
                    v_topic_ids := v_topic_ids || v_topic.topic_id;
                    v_firsts := v_firsts || v_moved.first_position;
                    v_lasts := v_lasts || v_moved.first_position + v_moved.events - 1;
                end if;
            elsif v_topic.retry_at <= headrace.clock() then
                v_alone := v_alone || v_topic.topic_id;
            end if;
        end loop;
    exception when others then
        -- Rolled back with its locks. Each topic is tried again by itself, to find out which of them failed.
        v_moves := null;
        v_alone := v_waiting;
    end;
    if v_alone is not null then
        v_moves := v_moves || headrace_internal.sequence_alone(case when v_moves is null then v_alone else v_alone[:1] end, p_batch, p_rests);
    end if;
    if v_moves is null then
        return;
    end if;
    v_work_s := date_part('epoch', clock_timestamp() - statement_timestamp());
    if v_topic_ids is not null and v_alone is null and not v_is_full then
        v_passed := headrace_internal.run_pass(v_topic_ids, v_firsts, v_lasts, p_pass_topics, p_pass_correlators, p_pass_ms);
    end if;
    foreach v_move in array v_moves loop
        if v_move.rows is not null then
            return query select (v_move.topic).topic, r.* from unnest(v_move.rows) r;
        end if;
        v_row.topic_id := (v_move.topic).topic_id;
        v_row.position := v_move.first_position;
        v_row.payload := jsonb_build_object('topic_id', v_row.topic_id, 'events', v_move.events, 'duplicates', v_move.duplicates,
            'handed', coalesce(cardinality(v_move.rows), 0), 'bytes', coalesce(pg_column_size(v_move.rows), 0), 'partitions', (v_move.topic).partitions, 'erasures', (v_move.topic).erasures, 'server', pg_postmaster_start_time(),
            'latency_ms', (select min(c.latency_ms) from headrace_internal.consumer c where c.topic_id = v_row.topic_id),
            'work_s', v_work_s, 'served', v_passed -> v_row.topic_id::text);
        return next v_row;
    end loop;
    v_notify := (select string_agg((m.topic).topic_id::text, ',') from unnest(v_moves) m where m.events > 0);
    if v_notify is not null then
        -- A NOTIFY carries at most 8000 bytes; an empty one means every topic.
        perform headrace_internal.notify('headrace_log', case when length(v_notify) < 7000 then v_notify else '' end);
    end if;
end
$$;

-- Moves committed events into the logs of their topics, for whoever runs no node: one step, see headrace_internal.sequence_step. Returns
-- what it did to each topic. Call it again until it returns no row.
-- Calls: sequence_step.
create or replace function headrace.sequence(p_batch integer default 10000, p_rests boolean default false)
returns table (topic_id integer, first_position bigint, last_position bigint, events integer, duplicates integer)
language sql volatile set search_path = pg_catalog, pg_temp
as $$
    select s.topic_id, s.position, s.position + (s.payload ->> 'events')::integer - 1, (s.payload ->> 'events')::integer,
        (s.payload ->> 'duplicates')::integer
    from headrace_internal.sequence_step(p_batch, p_rests) s
$$;

-- Marks topics as asleep that had no events for p_idle_s seconds, so that their publishers send a NOTIFY again.
-- Returns how soon the sequencer must check again: 'busy' (some topics are awake), 'watch' (a transaction that has published is
-- still open and may have read "awake"), 'poll' (publishers do not notify, see headrace_internal.may_notify), or 'sleep'. A topic
-- that failed and waits for its retry counts as asleep.
-- Locks: topic rows, no key update, skip locked.
-- Indexes: log_position backwards and outbox_order, one probe per topic that is awake, whatever the statistics say.
-- Calls: read_head, may_notify.
create or replace function headrace_internal.mark_idle_topics(p_idle_s double precision) returns text
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    update headrace_internal.topic t set asleep = true, asleep_at = statement_timestamp(), asleep_head = q.head
    from (
        select i.topic_id, coalesce(h.position, i.dropped_to) as head
        from headrace_internal.topic i
        cross join lateral headrace_internal.read_head(i.topic_id, i.clock, i.time_partition) h
        where not i.asleep and coalesce(h.appended_at, '-infinity') < headrace.clock() - make_interval(secs => p_idle_s)
            -- Not "not exists": as a join it would read the whole outbox.
            and (select o.id from headrace_internal.outbox o where o.topic_id = i.topic_id order by o.id limit 1) is null
        for no key update of i skip locked
    ) q
    where t.topic_id = q.topic_id;
    if exists (
        select from headrace_internal.topic t
        where not t.asleep and not exists (select from headrace_internal.failure f where f.kind = 'sequence'
            and f.namespace = t.namespace and f.name = t.topic and f.retry_at > headrace.clock() + interval '25 milliseconds')
    ) then
        return 'busy';
    end if;
    if exists (
        select from pg_locks l
        join pg_inherits i on i.inhrelid = l.relation and i.inhparent = 'headrace_internal.outbox'::regclass
        where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.pid <> pg_backend_pid()
            and l.database = (select d.oid from pg_database d where d.datname = current_database())
    ) then
        return 'watch';
    end if;
    return case when headrace_internal.may_notify() then 'sleep' else 'poll' end;
end
$$;

-- Truncates tables of the outbox whose turn is over and that are empty, and returns how many. Rows of dropped topics are deleted with them.
-- A table rests for 3 seconds before: it has been empty for so long, and nothing was deleted from it meanwhile, as far as the counters of
-- the server tell. For pg_dump takes its snapshot before its locks: rows that are in the snapshot must still be in the table when it
-- gets the lock, because they are in the log only after the snapshot. Runs as the owner: a node's role may not truncate.
-- Locks: access exclusive on an empty table that nobody writes to, without waiting: a table in use is left for later, one with
-- waiting events is not locked at all. The open transaction of a writer locks its table, so nothing uncommitted is truncated, and
-- rows committed before the lock are seen by the check under it. That takes a fresh snapshot per statement: raises HR208 unless
-- READ COMMITTED, where an older one would lose events. Whoever else trims meanwhile is left alone. Indexes: outbox_order, outbox_rest_pkey,
-- whatever the statistics say.
-- Calls: outbox_slot, require_read_committed.
create or replace function headrace_internal.trim_outbox() returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_now     integer := headrace.outbox_slot(headrace.clock());
    v_slot    record;
    v_deleted bigint;
    v_waits   text;
    v_found   boolean;
    v_rests   boolean;
    v_trimmed integer := 0;
begin
    perform headrace_internal.require_read_committed('headrace_internal.trim_outbox');
    for v_slot in
        select s.slot, format('headrace_internal.%I', 'outbox_' || s.slot) as name from generate_series(0, 2) s (slot) where s.slot <> v_now
    loop
        -- headrace.clock() stands still within a call, the turns do not: the next one begins after 4 seconds at most. A table is not
        -- truncated in the second before its turn, and locks last until the end of the transaction, which must come before that.
        exit when clock_timestamp() > statement_timestamp() + interval '0.5 seconds';
        continue when v_slot.slot = headrace.outbox_slot(headrace.clock() + interval '1 second');
        continue when pg_relation_size(v_slot.name::regclass) = 0;
        -- One probe per topic. Not "exists": as a join it could read the whole table.
        v_waits := format('select true from headrace_internal.topic t where '
            '(select o.id from %s o where o.topic_id = t.topic_id order by o.id limit 1) is not null limit 1', v_slot.name);
        execute v_waits into v_found;
        continue when v_found;
        v_deleted := pg_stat_get_tuples_deleted(v_slot.name::regclass);
        insert into headrace_internal.outbox_rest as r (slot, empty_since, rows_deleted) values (v_slot.slot, headrace.clock(), v_deleted)
        on conflict on constraint outbox_rest_pkey do nothing;
        continue when found;
        select r.rows_deleted = v_deleted into v_rests
        from headrace_internal.outbox_rest r where r.slot = v_slot.slot for update skip locked;
        -- Found by nobody: another call trims it.
        continue when v_rests is null;
        update headrace_internal.outbox_rest r set empty_since = headrace.clock(), rows_deleted = v_deleted
        where r.slot = v_slot.slot and (not v_rests or r.empty_since > headrace.clock());
        continue when found or (
            select r.empty_since > headrace.clock() - interval '3 seconds' from headrace_internal.outbox_rest r where r.slot = v_slot.slot);
        begin
            execute format('lock table %s in access exclusive mode nowait', v_slot.name);
            execute v_waits into v_found;
            if v_found is null then
                execute format('truncate %s', v_slot.name);
                delete from headrace_internal.outbox_rest r where r.slot = v_slot.slot;
                v_trimmed := v_trimmed + 1;
            end if;
        exception when lock_not_available then
            null;
        end;
    end loop;
    return v_trimmed;
end
$$;
