-- Moves the oldest p_batch outbox rows of a topic that the caller has locked into its log, but only those of the first 8 MB as they
-- are stored (and at least one), so that large payloads make no long turn; see headrace.sequence. On the event clock, only those that fit into p_time_partitions_max time partitions; time_partitions is the number it has appended to, 0 on
-- the server's clock.
-- Locks: what headrace_internal.attach_log locks, for the first event, and headrace_internal.extend_log, if partitions are missing. Indexes: outbox_order for the rows, log_position
-- backwards for the head, log_event_id for known ids; outbox_order must be used whatever the statistics of this fast-changing table say.
create or replace function headrace_internal.sequence_topic(
    p_topic headrace_internal.topic, p_batch integer, p_time_partitions_max integer,
    out first_position bigint, out events integer, out duplicates integer, out time_partitions integer
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
    if p_topic.asleep then
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
        returning 1
    )
    select (select count(*) from moved), (select count(*) from appended) into v_moved, events;
    first_position := v_head + 1;
    duplicates := v_moved - events;
end
$$;
