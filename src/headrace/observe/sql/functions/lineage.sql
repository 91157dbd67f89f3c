-- Deletes the lineage of events that are gone, also of dropped topics. Topics are found in steps from one to the next. A firing or output is kept as long as its event, in the log or in the archive; that
-- of a timer, which has no position, as long as events of its time; that of a topic until the topic is dropped.
-- Works in chunks of p_piece rows, oldest first. Stops after the first chunk that ends later than p_time_max; the next call continues.
-- Returns the number of rows. That an event fires once does not depend on these rows: no cursor returns to a dropped position.
-- Locks: the rows, skip locked: another node deletes them. Indexes: firing_position, correlation_position, correlation_timer,
-- whatever the statistics say.
-- Calls: archived_from, time_partitions.
create or replace function headrace_internal.forget_lineage(
    p_piece integer default 10000, p_time_max interval default '1 second'
) returns bigint
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    -- Real time: headrace.clock() does not move within a call.
    v_end       timestamptz := clock_timestamp() + p_time_max;
    v_topic     record;
    v_fired     bigint;
    v_pushed    bigint;
    v_timed     bigint;
    v_forgotten bigint := 0;
begin
    for v_topic in
        with recursive lineage (topic_id) as (
            select -1
            union all
            select n.topic_id
            from lineage p
            cross join lateral (
                select min(m.topic_id) as topic_id from (
                    (select f.topic_id from headrace_internal.firing f where f.topic_id > p.topic_id order by f.topic_id limit 1)
                    union all
                    (select c.topic_id from headrace_internal.correlation c
                    where c.position is not null and c.topic_id > p.topic_id order by c.topic_id limit 1)
                    union all
                    (select c.topic_id from headrace_internal.correlation c
                    where c.position is null and c.topic_id > p.topic_id order by c.topic_id limit 1)) m) n
            where n.topic_id is not null
        )
        select l.topic_id, t.topic_id is null as gone, coalesce(a.first_position, t.dropped_to + 1, 9223372036854775807) as first_position,
            case when t.topic_id is null then 'infinity' else coalesce(a.first_at, p.first_at) end as first_at
        from lineage l
        left join headrace_internal.topic t on t.topic_id = l.topic_id
        left join headrace_internal.archive a
            on a.topic_id = t.topic_id and a.first_position = headrace.archived_from(t.topic_id, t.dropped_to)
        left join lateral (select min(p.from_at) as first_at from headrace.time_partitions(t.topic_id) p) p on t.dropped_to > 0
        where l.topic_id >= 0 and (t.topic_id is null or t.dropped_to > 0)
        -- The order is random, so that no topic is always last when one call cannot do all.
        order by random()
    loop
        if v_topic.gone then
            -- Inline firings that never got a position.
            delete from headrace_internal.firing f where f.topic_id = v_topic.topic_id and f.position is null;
        end if;
        loop
            delete from headrace_internal.firing f where f.ctid = any (array(
                select o.ctid from headrace_internal.firing o
                where o.topic_id = v_topic.topic_id and o.position < v_topic.first_position
                order by o.position limit p_piece for update skip locked));
            get diagnostics v_fired = row_count;
            delete from headrace_internal.correlation f where f.ctid = any (array(
                select o.ctid from headrace_internal.correlation o
                where o.topic_id = v_topic.topic_id and o.position < v_topic.first_position
                order by o.position limit p_piece for update skip locked));
            get diagnostics v_pushed = row_count;
            delete from headrace_internal.correlation f where f.ctid = any (array(
                select o.ctid from headrace_internal.correlation o
                where o.topic_id = v_topic.topic_id and o.position is null and o.output_at < v_topic.first_at
                order by o.output_at limit p_piece for update skip locked));
            get diagnostics v_timed = row_count;
            v_forgotten := v_forgotten + v_fired + v_pushed + v_timed;
            if clock_timestamp() > v_end then
                return v_forgotten;
            end if;
            exit when greatest(v_fired, v_pushed, v_timed) < p_piece;
        end loop;
    end loop;
    return v_forgotten;
end
$$;
