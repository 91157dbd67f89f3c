-- Reads the newest position of a table of the log and, with p_position, the time of the event after that in seconds since 1970.
-- p_known: a position that the head had before, or null. With it a scan backwards reads only the entries since then, instead of a
-- whole page of the index. For p_prepare see headrace_internal.metrics_of_log. Index: log_position, backwards.
create or replace function headrace_internal.look_up_log(
    p_table regclass, p_known bigint, p_position bigint, p_prepare boolean, out head bigint, out next_s double precision
)
language plpgsql volatile
as $$
declare
    v_query constant text := 'select (select l.position from %1$s l where l.position >= $1 order by l.position desc limit 1), '
        '(select date_part(''epoch'', l.appended_at) from %1$s l where l.position = $2)';
    v_call  text;
begin
    if not p_prepare then
        execute format(v_query, p_table) into head, next_s using coalesce(p_known, 0), p_position + 1;
        return;
    end if;
    v_call := 'execute headrace_metrics_log_' || p_table::oid || '(' || coalesce(p_known, 0) || ',' || coalesce((p_position + 1)::text, 'null') || ')';
    begin
        execute v_call into head, next_s;
    exception
        -- It is not prepared in this session yet (a syntax error on PostgreSQL 15).
        when invalid_sql_statement_name or syntax_error then
            execute 'prepare headrace_metrics_log_' || p_table::oid || ' (bigint, bigint) as ' || format(v_query, p_table);
            execute v_call into head, next_s;
    end;
end
$$;

-- What the caller of headrace.metrics remembers of a topic, as JSON text; see headrace_internal.metrics_of_log. Inlined.
create or replace function headrace_internal.known_head(p_version text, p_head bigint, p_times text) returns text
language sql immutable parallel safe
as $$
    -- A version is a number: it needs no escapes.
    select '[' || coalesce('"' || p_version || '"', 'null') || ',' || coalesce(p_head::text, 'null') || ',{' || coalesce(p_times, '') || '}]'
$$;

-- Returns the time of the first event after a position in a topic's log, in seconds since 1970; null if there is none. p_now: the time
-- partition that is written now, or null; if the next position is not there, by the topic's branch. Index: log_position.
-- Calls: look_up_log.
create or replace function headrace_internal.next_event_s(p_topic_id integer, p_now regclass, p_position bigint, p_prepare boolean)
returns double precision
language plpgsql volatile
as $$
declare
    v_next_s double precision;
begin
    if p_now is not null then
        select r.next_s into v_next_s from headrace_internal.look_up_log(p_now, p_position + 1, p_position, p_prepare) r;
    end if;
    if v_next_s is null then
        execute format('select date_part(''epoch'', l.appended_at) from headrace_internal.%I l where l.position > $1 order by l.position limit 1',
            'log_' || p_topic_id) into v_next_s using p_position;
    end if;
    return v_next_s;
end
$$;

-- Returns the lag of a consumer with a cursor per partition: how many events it has not handled, and the time of the oldest of them. Positions
-- count the events of all partitions, so those of one partition are counted by an index, up to p_exact; beyond that the number is an
-- estimate, the partition's share of the events since its oldest one.
-- p_now: the time partition that is written now, or null; it is used if all events to handle are in it. Index: log_partition, in a
-- form that rules out every other index, see headrace_internal.next_position.
create or replace function headrace_internal.partition_lag(
    p_consumer_id bigint, p_topic_id integer, p_now regclass, p_head bigint, p_partitions integer, p_exact integer default 100,
    out events double precision, out oldest_at timestamptz
)
language plpgsql stable
as $$
declare
    v_cursor record;
    v_lag    record;
    v_first  bigint;
begin
    events := 0;
    if p_now is not null then
        execute format('select l.position from %s l order by l.position limit 1', p_now) into v_first;
    end if;
    for v_cursor in
        select u.partition, u.position from headrace_internal.cursor u where u.consumer_id = p_consumer_id and u.position < p_head
    loop
        execute format(
            'select count(*) as events, min(l.position) as first_position, min(l.appended_at) as oldest_at from ('
            'select l.position, l.appended_at from %s l where l.partition <= %s and (l.partition, l.position) > (%2$s, %s) '
            'order by l.partition, l.position limit %s) l',
            case when v_cursor.position + 1 >= v_first then p_now else format('headrace_internal.%I', 'log_' || p_topic_id)::regclass end,
            v_cursor.partition, v_cursor.position, p_exact + 1) into v_lag;
        events := events + case when v_lag.events <= p_exact then v_lag.events
            else greatest(v_lag.events, ceil((p_head - v_lag.first_position + 1)::double precision / p_partitions)) end;
        oldest_at := least(oldest_at, v_lag.oldest_at);
    end loop;
end
$$;

-- Metrics of topics and consumers: headrace_sequenced_events_total, headrace_consumer_lag_events, headrace_consumer_lag_seconds. The lag of
-- a consumer without events to handle is 0. The lag of a cursor over the topic is the difference of positions, and its age that of the
-- event at the next position. Both are read from the time partition that is written now, 35 µs together (measured); what is not there, by
-- the topic's whole log. For cursors per partition see headrace_internal.partition_lag.
-- p_known, what a call before returned in rows of the metric headrace_known, saves these look-ups: a topic that sleeps since then has the
-- same head (the sequencer wakes it before it appends), and the event after a position keeps its time. A row has the topic's version while
-- it sleeps, its head, and the times of events by the position before them, in seconds since 1970.
-- p_prepare: by prepared statements of the session, which halves the time of a look-up. Only for the owner and for nodes, which are trusted
-- as the owner is: anybody else could prepare a statement of that name before, and it would run as the owner. One for each table, because
-- autovacuum voids every plan with its table: a plan over 100 topics would be made anew all the time, 35 ms (measured). Times are numbers
-- and JSON is concatenated: intervals, timestamps and functions such as jsonb_build_array cost as much as a look-up.
-- Index: log_position.
-- Calls: known_head, current_log_partition, look_up_log, log_head, partition_lag, next_event_s.
create or replace function headrace_internal.metrics_of_log(p_namespaces text[], p_known jsonb, p_prepare boolean)
returns table (metric text, labels text[], value double precision)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_bordered integer[] := array(select distinct b.topic_id from headrace_internal.topic_border b where b.position > 0);
    v_consumer record;
    v_topic_id integer;
    v_version  text;
    v_clock    timestamptz := headrace.clock();
    v_clock_s  double precision := date_part('epoch', v_clock);
    v_width    text;
    v_start    timestamp;
    v_start_name text;
    v_next_name text;
    v_known    jsonb;
    v_is_known boolean;
    v_was_late boolean;
    v_now      regclass;
    v_head     bigint;
    v_first    bigint;
    v_next_s   double precision;
    v_oldest_s double precision;
    v_until_s  double precision;
    v_times    text;
begin
    for v_consumer in
        select t.topic_id, t.namespace, t.topic, t.clock, t.time_partition, t.dropped_to, t.partitions,
            case when t.asleep then t.xmin::text end as version, c.consumer_id, c.consumer, c.ordered_by, u.position,
            t.partitions > 1 or t.topic_id = any (v_bordered) as is_partitioned
        from headrace_internal.topic t
        left join headrace_internal.consumer c on c.topic_id = t.topic_id
        left join lateral (
            select min(u.position) as position from headrace_internal.cursor u where u.consumer_id = c.consumer_id) u on true
        where t.namespace = any (p_namespaces)
        order by t.topic_id, c.consumer_id
    loop
        if v_topic_id is distinct from v_consumer.topic_id then
            if v_topic_id is not null then
                metric := 'headrace_known';
                labels := array[v_topic_id::text, headrace_internal.known_head(v_version, v_head, v_times)];
                return next;
            end if;
            v_topic_id := v_consumer.topic_id;
            v_version := v_consumer.version;
            v_known := p_known -> v_topic_id::text;
            v_times := null;
            v_is_known := v_known ->> 0 = v_version;
            v_now := null;
            v_next_s := null;
            if v_is_known then
                v_head := (v_known ->> 1)::bigint;
            else
                -- A consumer that was late is probably late again: then the head's statement returns the time, too.
                v_was_late := v_known -> 2 <> '{}' and not v_consumer.is_partitioned;
                -- This does what headrace_internal.current_log_partition does, but builds the ends of the names once.
                if v_width is distinct from v_consumer.time_partition then
                    v_width := v_consumer.time_partition;
                    v_start := date_trunc(v_width, v_clock at time zone 'UTC');
                    v_start_name := '_p' || to_char(v_start, 'YYYYMMDD');
                    v_next_name := '_p' || to_char(v_start + ('1 ' || v_width)::interval, 'YYYYMMDD');
                end if;
                v_now := case when v_consumer.clock = 'server' then to_regclass('headrace_internal.log_' || v_topic_id || v_start_name) end;
                if v_now is null then
                    v_now := headrace_internal.current_log_partition(v_topic_id, v_consumer.clock, v_width, v_clock);
                elsif pg_relation_size(to_regclass('headrace_internal.log_' || v_topic_id || v_next_name)) > 0 then
                    v_now := null;
                end if;
                v_first := case when v_was_late then v_consumer.position end;
                v_head := null;
                if v_now is not null then
                    select r.head, r.next_s into v_head, v_next_s
                    from headrace_internal.look_up_log(v_now, (v_known ->> 1)::bigint, v_first, p_prepare) r;
                end if;
                if v_head is null then
                    select h.position into v_head from headrace.log_head(v_topic_id) h;
                    v_head := coalesce(v_head, v_consumer.dropped_to);
                end if;
            end if;
            metric := 'headrace_sequenced_events_total';
            labels := array[v_consumer.namespace, v_consumer.topic];
            value := v_head;
            return next;
        end if;
        continue when v_consumer.consumer_id is null;
        value := greatest(v_head - v_consumer.position, 0);
        if value > 0 then
            v_oldest_s := case when v_consumer.position = v_first and v_next_s is not null then v_next_s
                else (v_known -> 2 ->> v_consumer.position::text)::double precision end;
            if v_oldest_s is null and v_is_known and v_now is null then
                v_now := headrace_internal.current_log_partition(v_topic_id, v_consumer.clock, v_consumer.time_partition, v_clock);
            end if;
            if v_consumer.is_partitioned and v_consumer.ordered_by = 'partition' then
                select p.events, date_part('epoch', p.oldest_at) into value, v_oldest_s
                from headrace_internal.partition_lag(v_consumer.consumer_id, v_topic_id, v_now, v_head, v_consumer.partitions) p;
            else
                if v_oldest_s is null then
                    v_oldest_s := headrace_internal.next_event_s(v_topic_id, v_now, v_consumer.position, p_prepare);
                end if;
                v_times := coalesce(v_times || ',', '') || '"' || v_consumer.position || '":' || coalesce(v_oldest_s::text, 'null');
            end if;
        end if;
        labels := array[v_consumer.namespace, v_consumer.topic, v_consumer.consumer];
        metric := 'headrace_consumer_lag_events';
        return next;
        metric := 'headrace_consumer_lag_seconds';
        -- Use the topic's own time: if that is the events', it stands still at the newest one.
        v_until_s := v_clock_s;
        if value > 0 and v_consumer.clock <> 'server' then
            v_until_s := headrace_internal.next_event_s(v_topic_id, v_now, v_head - 1, p_prepare);
        end if;
        value := case when value > 0 and v_oldest_s < v_until_s then v_until_s - v_oldest_s else 0 end;
        return next;
    end loop;
    if v_topic_id is not null then
        metric := 'headrace_known';
        labels := array[v_topic_id::text, headrace_internal.known_head(v_version, v_head, v_times)];
        return next;
    end if;
end
$$;

-- Returns the lag of every cursor of a namespace, or of one topic or consumer: how many events it has not handled, and the time of the oldest.
-- The lag of a cursor over the whole topic is a difference of positions. Of one partition up to p_exact events are counted, fewer if
-- there are many cursors; beyond that the number is an estimate, the partition's share of the events after the cursor. So a call costs
-- the same whatever the log holds: some 20 µs for a cursor that is behind, and a millisecond for each topic.
-- One statement for each topic queries the topic's own branch of the log: a query on the whole log is planned for every topic.
-- Locks nothing. Indexes: log_partition in a form that rules out every other index, log_position.
create or replace function headrace.cursor_lag(
    p_topic text default null, p_consumer text default null, p_namespace text default null, p_exact integer default 100,
    p_caller headrace_internal.caller default current_user
) returns table (consumer_id bigint, partition integer, events bigint, is_estimate boolean, oldest_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
    v_topic     record;
    v_branch    text;
    v_head      bigint;
begin
    for v_topic in
        select t.topic_id, t.partitions, t.dropped_to, array_agg(u.consumer_id) as consumers, array_agg(u.partition) as cursors,
            array_agg(u.position) as positions,
            -- 5 000 events are counted in all, but some of every partition: most lags are short.
            least(p_exact, greatest(10, 5000 / sum(count(*)) over ()))::integer as exact
        from headrace_internal.topic t
        join headrace_internal.consumer c on c.topic_id = t.topic_id and (p_consumer is null or c.consumer = p_consumer)
        join headrace_internal.cursor u on u.consumer_id = c.consumer_id
        where t.namespace = v_namespace and (p_topic is null or t.topic = p_topic)
        group by t.topic_id
    loop
        v_branch := format('headrace_internal.%I', 'log_' || v_topic.topic_id);
        execute format('select l.position from %s l order by l.position desc limit 1', v_branch) into v_head;
        return query execute format($sql$
            with u as (
                select u.consumer_id, u.partition, u.position from unnest($1, $2, $3) u (consumer_id, partition, position)
            )
            select u.consumer_id, u.partition, 0::bigint, false, null::timestamptz from u where u.position >= $4
            union all
            select u.consumer_id, u.partition, $4 - u.position, false,
                (select l.appended_at from %1$s l where l.position > u.position order by l.position limit 1)
            from u where u.position < $4 and u.partition < 0
            union all
            select u.consumer_id, u.partition, case when g.events <= $5 then g.events else greatest(($4 - u.position) / $6, g.events) end,
                g.events > $5, g.oldest_at
            from u
            cross join lateral (
                select count(*) as events, min(l.appended_at) as oldest_at from (
                    select l.appended_at from %1$s l
                    where l.partition <= u.partition and (l.partition, l.position) > (u.partition, u.position)
                    order by l.partition, l.position limit $5 + 1) l
            ) g
            where u.position < $4 and u.partition >= 0
            $sql$, v_branch)
        using v_topic.consumers, v_topic.cursors, v_topic.positions, coalesce(v_head, v_topic.dropped_to), v_topic.exact,
            v_topic.partitions;
    end loop;
end
$$;
