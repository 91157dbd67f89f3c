-- Moves committed outbox rows into the log: for every topic with rows that no other sequencer holds, the oldest p_batch rows (and
-- a few that became visible meanwhile), in id order, with the positions after the head. One transaction; consumers are notified
-- once, at its commit.
-- Locks: the topic row (no key update, skip locked) until the end of the transaction.
-- Indexes: outbox_order for the rows, log_position backwards for the head, log_event_id for known ids; they must be used whatever
-- the statistics of these fast-changing tables say.
create or replace function headrace.sequence(p_batch integer default 10000)
returns table (topic_id integer, first_position bigint, last_position bigint, events integer, duplicates integer)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_topic record;
    v_head  bigint;
    v_time  timestamptz;
    v_bound bigint;
    v_until timestamptz;
    v_moved integer;
    v_topics text;
begin
    for v_topic in
        select t.topic_id, t.partitions, t.dropped_to, t.log_until, t.asleep, t.timers_to, t.clock, t.created_at
        from headrace_internal.topic t
        where t.topic_id in (select w.topic_id from headrace_internal.outbox_topics() w (topic_id))
        order by t.topic_id
        for no key update skip locked
    loop
        select h.position, h.appended_at into v_head, v_time from headrace.log_head(v_topic.topic_id) h;
        v_head := coalesce(v_head, v_topic.dropped_to);
        -- The log's time never goes back, whatever the server's clock does, nor behind a timer that has fired; and it begins
        -- with the topic: before that there is no time partition.
        if v_topic.clock = 'server' then
            v_time := greatest(v_time, v_topic.timers_to, v_topic.created_at, headrace.clock());
            if v_time >= v_topic.log_until then
                perform headrace_internal.extend_log(v_topic.topic_id, v_time);
            end if;
        end if;
        if v_topic.asleep then
            update headrace_internal.topic t set asleep = false where t.topic_id = v_topic.topic_id;
        end if;

        select o.id into v_bound
        from headrace_internal.outbox o where o.topic_id = v_topic.topic_id order by o.id offset p_batch - 1 limit 1;

        if v_topic.clock = 'event' then
            v_time := greatest(v_time, v_topic.timers_to);
            v_until := headrace_internal.extend_log_to_events(v_topic.topic_id, v_time, coalesce(v_bound, 9223372036854775807));
        end if;

        with moved as (
            delete from headrace_internal.outbox o
            where o.topic_id = v_topic.topic_id and o.id <= coalesce(v_bound, 9223372036854775807)
            returning o.id, o.event_id, o.type, o.key, o.payload, o.headers,
                -- Publishing rejects a time beyond the limits; one that got here all the same must not stop the topic or its readers.
                headrace_internal.clamp_time(o.emitted_at) as emitted_at, o.producer
        ), fresh as (
            select m.id, m.event_id, m.type, m.key, m.payload, m.headers, m.emitted_at, m.producer,
                row_number() over (partition by m.event_id order by m.id) as copy
            from moved m
            where (select l.position from headrace_internal.log l
                where l.topic_id = v_topic.topic_id and l.event_id = m.event_id limit 1) is null
        ), numbered as (
            select v_head + row_number() over (order by f.id) as position,
                -- An event that has just become visible may lie beyond the partitions created a moment ago.
                case when v_topic.clock = 'server' then v_time else least(
                    greatest(v_time, max(f.emitted_at) over (order by f.id)), v_until - interval '1 microsecond') end as appended_at,
                f.event_id, f.type, f.key, f.payload, f.headers, f.emitted_at, f.producer
            from fresh f where f.copy = 1
        ), appended as (
            insert into headrace_internal.log
                (position, appended_at, emitted_at, topic_id, partition, event_id, type, key, payload, headers, producer)
            select n.position, n.appended_at, n.emitted_at, v_topic.topic_id,
                case when v_topic.partitions = 1 then 0
                    when n.key is null then n.position % v_topic.partitions
                    else headrace_internal.key_hash(n.key) % v_topic.partitions end,
                n.event_id, n.type, n.key, n.payload, n.headers, n.producer
            from numbered n
            order by n.position
            returning 1
        )
        select (select count(*) from moved), (select count(*) from appended) into v_moved, events;

        topic_id := v_topic.topic_id;
        first_position := v_head + 1;
        last_position := v_head + events;
        duplicates := v_moved - events;
        if events > 0 then
            v_topics := concat_ws(',', v_topics, topic_id);
        end if;
        return next;
    end loop;
    if v_topics is not null then
        -- A NOTIFY carries at most 8000 bytes; an empty one means every topic.
        perform pg_notify('headrace_log', case when length(v_topics) < 7000 then v_topics else '' end);
    end if;
end
$$;
