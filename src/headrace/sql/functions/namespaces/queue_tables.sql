-- The tables of a namespace's action queue: queue and dead letters, and pgmq's archives of both; none without a queue.
create or replace function headrace_internal.queue_tables(p_namespace text) returns setof regclass
language sql stable
as $$
    select t.queue_table
    from unnest(array['q_hr_%s', 'q_hr_%s_dlq', 'a_hr_%s', 'a_hr_%s_dlq']) n (pattern)
    cross join lateral to_regclass(format('pgmq.%I', format(n.pattern, p_namespace))) t (queue_table)
    where t.queue_table is not null
$$;
