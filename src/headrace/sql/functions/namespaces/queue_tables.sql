-- The tables of a namespace's action queue: queue and dead letters, and pgmq's archives of both; none without a queue.
create or replace function headrace_internal.queue_tables(p_namespace text) returns setof regclass
language sql stable
as $$
    select t.queue_table
    from pg_catalog.unnest(array['q_', 'a_']) p (prefix)
    cross join pg_catalog.unnest(array[headrace_internal.queue_of(p_namespace), headrace_internal.dead_letter_queue(headrace_internal.queue_of(p_namespace))]) n (queue)
    cross join lateral pg_catalog.to_regclass(pg_catalog.format('pgmq.%I', p.prefix || n.queue)) t (queue_table)
    where t.queue_table is not null
$$;
