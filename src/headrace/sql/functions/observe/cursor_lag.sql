-- The lag of every cursor of a namespace, or of one topic or consumer: how many events it has not handled, and the time of the oldest.
-- The lag of a cursor over the whole topic is a difference of positions. Of one partition up to p_exact events are counted, fewer if
-- there are many cursors; beyond that the number is an estimate, the partition's share of the events after the cursor. So a call costs
-- the same whatever the log holds: some 20 µs for a cursor that is behind, and a millisecond for each topic.
-- One statement for each topic names the topic's own branch of the log: by the whole log it would be planned for every topic.
-- Locks nothing. Indexes: log_partition in a form that rules out every other index, log_position.
create or replace function headrace.cursor_lag(
    p_topic text default null, p_consumer text default null, p_namespace text default null, p_exact integer default 100,
    p_caller headrace_internal.caller default current_user
) returns table (consumer_id bigint, partition integer, events bigint, is_estimate boolean, oldest_at timestamptz)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
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
