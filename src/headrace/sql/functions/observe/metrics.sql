-- All numbers of the database that a node shows as metrics, in the namespaces where the caller holds the level consume: the name of the
-- metric, the values of its labels in the order of headrace.observe.metrics.FAMILIES, and the value.
-- Nothing is counted that grows with the log: positions have no gaps, so a count is a difference. Queues, dead letters and the outbox
-- are counted up to a bound, see headrace_internal.metrics_of_queues and the functions beside it.
-- p_known: what the call before returned in rows of the metric headrace_known, as {labels[1]: labels[2]}. It saves look-ups, and firings
-- of rules are counted since then.
-- p_log_bytes: the size of the log, too, which takes as long as all the rest.
-- Locks nothing but what reading locks.
create or replace function headrace.metrics(
    p_known     jsonb default '{}',
    p_log_bytes boolean default true,
    p_caller    headrace_internal.caller default current_user
) returns table (metric text, labels text[], value double precision)
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'consume');
    -- Not for the queues of many namespaces: a plan of theirs takes some 40 kB of memory.
    v_prepare    boolean := headrace_internal.above_namespaces(p_caller);
begin
    return query select m.metric, m.labels, m.value from headrace_internal.metrics_of_log(
        v_namespaces, p_known, v_prepare) m;
    return query select m.metric, m.labels, m.value from headrace_internal.metrics_of_outbox(v_namespaces) m;
    return query select m.metric, m.labels, m.value from headrace_internal.metrics_of_queues(v_namespaces, v_prepare and cardinality(v_namespaces) <= 20) m;
    return query select m.metric, m.labels, m.value from headrace_internal.metrics_of_dead_letters(
        v_namespaces, v_prepare and cardinality(v_namespaces) <= 20) m;
    return query select 'headrace_notification_queue_usage', '{}'::text[], pg_notification_queue_usage();
    return query select m.metric, m.labels, m.value from headrace_internal.metrics_of_nodes(v_namespaces) m;
    return query select m.metric, m.labels, m.value from headrace_internal.metrics_of_rules(v_namespaces, p_known) m;
    if p_log_bytes then
        return query select m.metric, m.labels, m.value from headrace_internal.metrics_of_log_bytes(v_namespaces) m;
    end if;
end
$$;
