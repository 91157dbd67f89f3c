-- Creates the time partitions for the events that wait in the outbox up to the id p_bound (null: all), in a topic on the event clock.
-- p_time is the time of its newest event, null for an empty log. Returns where the partitions end and up to which id the events fit
-- into p_time_partitions_max of them, so that a sparse backfill takes many steps with few locks each instead of one with too many.
-- Locks: what headrace_internal.extend_log locks. Index: outbox_order.
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
