-- Metric headrace_outbox_waiting: the events of each topic that are committed and not sequenced. Only topics with such events.
-- Counted by an index up to 10 000 events together, shared by the topics that have some. Topics with more share what the statistics
-- say that there is beyond that: an estimate, which is 0 after a crash of the server until the outbox is written again.
-- Index: outbox_order, whatever the statistics of this fast-changing table say.
create or replace function headrace_internal.metrics_of_outbox(p_namespaces text[])
returns table (metric text, labels text[], value double precision)
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_topics integer[] := array(select w.topic_id from headrace_internal.outbox_topics() w (topic_id));
    v_most   integer := greatest(10000 / greatest(cardinality(v_topics), 1), 10);
    v_live   bigint := (
        select coalesce(sum(pg_stat_get_live_tuples(p.relid)), 0) from pg_partition_tree('headrace_internal.outbox') p where p.isleaf);
begin
    return query
    with waiting as (
        select w.topic_id, (
            select count(*) from (
                select from headrace_internal.outbox o where o.topic_id = w.topic_id order by o.topic_id, o.id limit v_most) o) as events
        from unnest(v_topics) w (topic_id)
    ), total as (
        select sum(w.events) as events, nullif(count(*) filter (where w.events = v_most), 0) as full_topics from waiting w
    )
    select 'headrace_outbox_waiting', array[t.namespace, t.topic],
        (w.events + case when w.events = v_most then coalesce(greatest(v_live - s.events, 0) / s.full_topics, 0) else 0 end)::double precision
    from waiting w
    cross join total s
    join headrace_internal.topic t on t.topic_id = w.topic_id
    where t.namespace = any (p_namespaces);
end
$$;
