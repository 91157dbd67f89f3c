-- What may have something to do now, for nodes that sleep until they are notified: topics (consumer_id is null) whose log grew in the
-- last seconds, and consumers that are behind the head of a log that rests, have a retry that is due soon, dead letters to redrive, or a
-- timer of their correlator that is due. p_namespace null: of all namespaces.
-- A notification says most of this earlier. This one statement for everything of a node makes good what no notification says: time
-- that passes, a lock that ended with its session, and a notification that was lost with its connection. So an idle consumer,
-- rule or correlator costs nothing. Of cursors per partition only the furthest is compared with the head; a worker that finds the
-- other partitions locked keeps asking by itself.
-- Locks nothing. Indexes: cursor_pkey, cursor_retry, dead_letter_redrive, correlator_instance_due.
create or replace function headrace_internal.find_due(p_namespace text default null) returns table (topic_id integer, consumer_id bigint)
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
begin
    return query
    select t.topic_id, null::bigint
    from headrace_internal.topic t
    where (p_namespace is null or t.namespace = p_namespace)
        and (not t.asleep or t.asleep_at > statement_timestamp() - interval '3 seconds');
    return query
    select c.topic_id, c.consumer_id
    from headrace_internal.topic t
    join headrace_internal.consumer c on c.topic_id = t.topic_id
    where t.asleep and (p_namespace is null or t.namespace = p_namespace)
        and not exists (select from headrace_internal.pause p where p.consumer_id = c.consumer_id)
        and (t.engine = 'database' or c.consumer not like 'headrace.%')
        and (c.condition is null or c.filter is not null)
        and t.asleep_head > (
        select max(u.position) from headrace_internal.cursor u
        where u.consumer_id = c.consumer_id and u.state = 'running' and (u.retry_at is null or u.retry_at <= headrace.clock()));
    return query
    select c.topic_id, c.consumer_id
    from headrace_internal.cursor u
    join headrace_internal.consumer c on c.consumer_id = u.consumer_id
    join headrace_internal.topic t on t.topic_id = c.topic_id
    -- A little ahead: nodes ask again in a second while this returns something, and in ten otherwise.
    where u.retry_at <= headrace.clock() + interval '12 seconds' and u.state = 'running' and (p_namespace is null or t.namespace = p_namespace);
    return query
    with recursive letter (consumer_id) as (
        (select d.consumer_id from headrace_internal.dead_letter d where d.state = 'redrive' order by d.consumer_id limit 1)
        union all
        select (select d.consumer_id from headrace_internal.dead_letter d
            where d.state = 'redrive' and d.consumer_id > l.consumer_id order by d.consumer_id limit 1)
        from letter l where l.consumer_id is not null
    )
    select c.topic_id, c.consumer_id
    from letter l
    join headrace_internal.consumer c on c.consumer_id = l.consumer_id
    join headrace_internal.topic t on t.topic_id = c.topic_id
    where p_namespace is null or t.namespace = p_namespace;
    return query
    select c.topic_id, c.consumer_id
    from headrace_internal.correlator_table k
    join headrace_internal.consumer c on c.consumer_id = k.consumer_id
    join headrace_internal.topic t on t.topic_id = c.topic_id and t.clock = 'server' and t.engine = 'database'
    where not k.simple and not k.halted and (p_namespace is null or t.namespace = p_namespace)
        and not exists (select from headrace_internal.pause p where p.consumer_id = k.consumer_id)
        -- Not "exists": as a join it would read all instances.
        and (select true from headrace_internal.correlator_instance i
            where i.correlator_id = k.correlator_id and i.deadline <= headrace.clock() limit 1);
end
$$;
