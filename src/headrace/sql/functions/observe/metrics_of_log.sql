-- Metrics of topics and consumers: headrace_sequenced_events_total, headrace_consumer_lag_events, headrace_consumer_lag_seconds. The lag
-- of a consumer without events to handle is 0.
-- The lag of a cursor over the topic is the difference of positions, and its age that of the event at the next position. Both are read
-- from the time partition that is written now, 60 µs each (measured); what is not there, by the topic's whole log. For cursors per
-- partition see headrace_internal.partition_lag.
-- p_known, what a call before returned in rows of the metric headrace_known, saves these look-ups: a topic that sleeps since then has
-- the same head (the sequencer wakes it before it appends), and the event after a position keeps its time.
-- p_prepare: by prepared statements of the session, which halves the time of a look-up. Only for the owner and for nodes, which are
-- trusted as the owner is: anybody else could prepare a statement of that name before, and it would run as the owner. One for each
-- table, because autovacuum voids every plan with its table: a plan over 100 topics would be made anew all the time, 35 ms (measured).
-- Index: log_position.
create or replace function headrace_internal.metrics_of_log(p_namespaces text[], p_known jsonb, p_prepare boolean)
returns table (metric text, labels text[], value double precision)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_consumer record;
    v_topic_id integer;
    v_version  text;
    v_clock    timestamptz := headrace.clock();
    v_known    jsonb;
    v_is_known boolean;
    v_now      regclass;
    v_head     bigint;
    v_oldest   timestamptz;
    v_times    jsonb;
begin
    for v_consumer in
        select t.topic_id, t.namespace, t.topic, t.clock, t.time_partition, t.dropped_to, t.partitions,
            case when t.asleep then t.xmin::text end as version, c.consumer_id, c.consumer, c.ordered_by, u.position,
            t.partitions > 1 or exists (
                select from headrace_internal.topic_border b where b.topic_id = t.topic_id and b.position > 0) as is_partitioned
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
                labels := array[v_topic_id::text, jsonb_build_array(v_version, v_head, v_times)::text];
                return next;
            end if;
            v_topic_id := v_consumer.topic_id;
            v_version := v_consumer.version;
            v_known := p_known -> v_topic_id::text;
            v_times := '{}';
            v_is_known := v_known ->> 0 = v_version;
            v_now := null;
            if v_is_known then
                v_head := (v_known ->> 1)::bigint;
            else
                v_now := headrace_internal.current_log_partition(v_topic_id, v_consumer.clock, v_consumer.time_partition, v_clock);
                v_head := headrace_internal.topic_head(v_topic_id, v_now, v_consumer.dropped_to, p_prepare);
            end if;
            metric := 'headrace_sequenced_events_total';
            labels := array[v_consumer.namespace, v_consumer.topic];
            value := v_head;
            return next;
        end if;
        continue when v_consumer.consumer_id is null;
        value := greatest(v_head - v_consumer.position, 0);
        v_oldest := (v_known -> 2 ->> v_consumer.position::text)::timestamptz;
        if value > 0 and v_oldest is null and v_is_known and v_now is null then
            v_now := headrace_internal.current_log_partition(v_topic_id, v_consumer.clock, v_consumer.time_partition, v_clock);
        end if;
        if value > 0 and v_consumer.is_partitioned and v_consumer.ordered_by = 'partition' then
            select p.events, p.oldest_at into value, v_oldest
            from headrace_internal.partition_lag(v_consumer.consumer_id, v_topic_id, v_now, v_head, v_consumer.partitions) p;
        elsif value > 0 then
            if v_oldest is null then
                v_oldest := headrace_internal.next_event_time(v_topic_id, v_now, v_consumer.position, p_prepare);
            end if;
            v_times := v_times || jsonb_build_object(v_consumer.position, v_oldest);
        end if;
        labels := array[v_consumer.namespace, v_consumer.topic, v_consumer.consumer];
        metric := 'headrace_consumer_lag_events';
        return next;
        metric := 'headrace_consumer_lag_seconds';
        -- In the topic's own time: if that is the events', it stands still at the newest one.
        value := case when value = 0 then 0 else coalesce(greatest(extract(epoch from case when v_consumer.clock = 'server' then v_clock
            else headrace_internal.next_event_time(v_topic_id, v_now, v_head - 1, p_prepare) end - v_oldest), 0), 0) end;
        return next;
    end loop;
    if v_topic_id is not null then
        metric := 'headrace_known';
        labels := array[v_topic_id::text, jsonb_build_array(v_version, v_head, v_times)::text];
        return next;
    end if;
end
$$;
