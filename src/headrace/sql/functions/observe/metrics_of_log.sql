-- Metrics of topics and consumers: headrace_sequenced_events_total, headrace_consumer_lag_events, headrace_consumer_lag_seconds. The lag
-- of a consumer without events to handle is 0.
-- The lag of a cursor over the topic is the difference of positions, and its age that of the event at the next position. Both are read
-- from the time partition that is written now, 35 µs together (measured); what is not there, by the topic's whole log. For cursors per
-- partition see headrace_internal.partition_lag.
-- p_known, what a call before returned in rows of the metric headrace_known, saves these look-ups: a topic that sleeps since then has
-- the same head (the sequencer wakes it before it appends), and the event after a position keeps its time. A row has the topic's
-- version while it sleeps, its head, and the times of events by the position before them, in seconds since 1970.
-- p_prepare: by prepared statements of the session, which halves the time of a look-up. Only for the owner and for nodes, which are
-- trusted as the owner is: anybody else could prepare a statement of that name before, and it would run as the owner. One for each
-- table, because autovacuum voids every plan with its table: a plan over 100 topics would be made anew all the time, 35 ms (measured).
-- Times are numbers and JSON is concatenated: intervals, timestamps and functions such as jsonb_build_array cost as much as a look-up.
-- Index: log_position.
create or replace function headrace_internal.metrics_of_log(p_namespaces text[], p_known jsonb, p_prepare boolean)
returns table (metric text, labels text[], value double precision)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
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
    v_call     text;
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
                -- Whoever was late is probably late again: then the time comes with the head.
                v_was_late := v_known -> 2 <> '{}' and not v_consumer.is_partitioned;
                -- As headrace_internal.current_log_partition does it, with the ends of the names made once.
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
                    v_call := headrace_internal.head_call(v_now, (v_known ->> 1)::bigint, v_first, p_prepare);
                    begin
                        execute v_call into v_head, v_next_s;
                    exception
                        -- Not prepared in this session yet (a syntax error on PostgreSQL 15).
                        when invalid_sql_statement_name or syntax_error then
                            perform headrace_internal.prepare_head(v_now, v_was_late);
                            execute v_call into v_head, v_next_s;
                    end;
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
                    v_oldest_s := date_part('epoch',
                        headrace_internal.next_event_time(v_topic_id, v_now, v_consumer.position, p_prepare));
                end if;
                v_times := coalesce(v_times || ',', '') || '"' || v_consumer.position || '":' || coalesce(v_oldest_s::text, 'null');
            end if;
        end if;
        labels := array[v_consumer.namespace, v_consumer.topic, v_consumer.consumer];
        metric := 'headrace_consumer_lag_events';
        return next;
        metric := 'headrace_consumer_lag_seconds';
        -- In the topic's own time: if that is the events', it stands still at the newest one.
        v_until_s := v_clock_s;
        if value > 0 and v_consumer.clock <> 'server' then
            v_until_s := date_part('epoch', headrace_internal.next_event_time(v_topic_id, v_now, v_head - 1, p_prepare));
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
