-- Returns the position of the next event of a partition after a position; null if there is none. Index: log_partition.
-- It queries the topic's own branch of the log: a query on the whole log plans and locks every topic.
-- The form of the condition rules out every other index: with an equality on the partition, or inside an exists, the planner may
-- walk log_position, or join the whole log (0.6 s per claim at 600 000 events, measured).
create or replace function headrace_internal.next_position(p_topic_id integer, p_partition integer, p_position bigint) returns bigint
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_position bigint;
begin
    execute format(
        'select l.position from headrace_internal.%I l where l.partition <= $1 and (l.partition, l.position) > ($1, $2) '
        'order by l.partition, l.position limit 1', 'log_' || p_topic_id)
    into v_position using p_partition, p_position;
    return v_position;
end
$$;

-- Returns how far a consumer may go: up to the oldest border (change of the number of partitions) that one of its partitions has not
-- reached; without one, the largest bigint. PL/pgSQL, because almost no topic has a border: the query's plan is then never started.
-- Indexes: topic_border_pkey, cursor_pkey, log_partition.
-- Calls: next_position.
create or replace function headrace_internal.consumer_bound(p_consumer_id bigint, p_topic_id integer) returns bigint
language plpgsql stable
as $$
begin
    if not exists (select from headrace_internal.topic_border b where b.topic_id = p_topic_id and b.position > 0) then
        return 9223372036854775807;
    end if;
    return (
        select coalesce(min(b.position), 9223372036854775807)
        from headrace_internal.topic_border b
        where b.topic_id = p_topic_id and b.position > 0
            and exists (
                select from headrace_internal.cursor c
                where c.consumer_id = p_consumer_id and c.partition >= 0 and c.position < b.position
                    and headrace_internal.next_position(p_topic_id, c.partition, c.position) <= b.position));
end
$$;

-- Returns the last of the next p_max events after a cursor, and how many there are. Of a partition only up to the border that the consumer may
-- not pass yet. In a large log it names the topic's own branch, see headrace_internal.log_is_small. Indexes: log_partition, log_position.
-- Runs as the owner: a node has no right on a branch.
-- Calls: log_is_small, consumer_bound.
create or replace function headrace_internal.batch_end(
    p_consumer_id bigint, p_topic_id integer, p_partition integer, p_position bigint, p_max integer, out upto bigint, out events integer
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
begin
    if p_partition < 0 and headrace_internal.log_is_small() then
        select max(l.position), count(*) into upto, events
        from (
            select l.position from headrace_internal.log l
            where l.topic_id = p_topic_id and l.position > p_position order by l.position limit p_max) l;
        return;
    end if;
    execute format(
        case when p_partition < 0 then
            'select max(l.position), count(*) from (select l.position from headrace_internal.%I l '
            'where l.position > $2 order by l.position limit $3) l'
        else
            'select max(l.position), count(*) from (select l.position from headrace_internal.%I l '
            'where l.partition <= $1 and (l.partition, l.position) > ($1, $2) '
            'and l.position <= (select headrace_internal.consumer_bound($4, $5)) order by l.partition, l.position limit $3) l' end,
        'log_' || p_topic_id)
    into upto, events using p_partition, p_position, p_max, p_consumer_id, p_topic_id;
end
$$;

-- Are there p_min events after a cursor, or has the oldest waited p_wait_s seconds? With a condition (its compiled form): events for
-- which it is true, among those up to p_upto. It names the topic's own branch, see headrace_internal.next_position.
-- Indexes: log_partition, log_position.
create or replace function headrace_internal.has_batch(
    p_topic_id integer, p_partition integer, p_position bigint, p_min integer, p_wait_s double precision,
    p_filter text default null, p_upto bigint default null
) returns boolean
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_events    integer;
    v_oldest_at timestamptz;
begin
    execute format(
        'select count(*), min(e.appended_at) from (select l.appended_at from headrace_internal.%I l where %s%s limit $3) e',
        'log_' || p_topic_id,
        case when p_filter is not null then '(' || p_filter || ') and l.position <= $4 and ' end,
        case when p_partition < 0 then 'l.position > $2 order by l.position'
            else 'l.partition <= $1 and (l.partition, l.position) > ($1, $2) order by l.partition, l.position' end)
    into v_events, v_oldest_at using p_partition, p_position, p_min, p_upto;
    return v_events >= p_min or v_oldest_at <= headrace.clock() - make_interval(secs => p_wait_s);
end
$$;

-- Looks for events after a cursor for which a consumer's condition, in its compiled form, is true: among the next 1 000, and if none of
-- these is, among 10 000 more. has_matches: a batch is due, its events are in the positions up to upto. Otherwise upto is how far the
-- cursor may go, because nothing before it matches; null if there are no events. has_more: more events follow upto.
-- Fewer than p_min matches are a batch only when the oldest has waited p_wait_s seconds, or more events follow.
-- It names the topic's own branch, see headrace_internal.next_position. Indexes: log_partition, log_position.
-- Calls: batch_end, has_batch.
create or replace function headrace_internal.find_matches(
    p_consumer_id bigint, p_topic_id integer, p_partition integer, p_position bigint, p_filter text, p_min integer,
    p_wait_s double precision, out upto bigint, out has_matches boolean, out has_more boolean
)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_from   bigint := p_position;
    v_max    integer;
    v_end    record;
    v_first  bigint;
begin
    has_matches := false;
    has_more := false;
    foreach v_max in array array[1000, 10000] loop
        v_end := headrace_internal.batch_end(p_consumer_id, p_topic_id, p_partition, v_from, v_max);
        has_more := v_end.events = v_max;
        exit when v_end.events = 0;
        upto := v_end.upto;
        execute format(
            'select l.position from headrace_internal.%I l where (%s) and l.position <= $3 and %s limit 1', 'log_' || p_topic_id, p_filter,
            case when p_partition < 0 then 'l.position > $2 order by l.position'
                else 'l.partition <= $1 and (l.partition, l.position) > ($1, $2) order by l.partition, l.position' end)
        into v_first using p_partition, v_from, upto;
        exit when v_first is not null or not has_more;
        v_from := upto;
    end loop;
    if v_first is null then
        return;
    end if;
    has_matches := p_min = 1 or has_more
        or headrace_internal.has_batch(p_topic_id, p_partition, p_position, p_min, p_wait_s, p_filter, upto);
    if not has_matches then
        upto := v_first - 1;
    end if;
end
$$;

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
set enable_seqscan = off set enable_bitmapscan = off set jit = off
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

-- Returns the consumers of a namespace that may have something to do now, and (with consumer_id null) the topics whose log grew in the last
-- seconds: see headrace_internal.find_due. topics changes when a topic of the namespace is created or dropped; there is always one row
-- with it. A node asks once a second while something is due or logs grow, and every ten seconds after a
-- quiet time, for all its consumers, which otherwise sleep until they are notified.
-- Calls: find_due.
create or replace function headrace.due_consumers(
    p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns table (topic_id integer, consumer_id bigint, topics text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'consume', p_namespace);
begin
    return query
    select null::integer, null::bigint, count(*) || ' ' || coalesce(max(t.topic_id), 0)
    from headrace_internal.topic t where t.namespace = v_namespace
    union all
    select d.topic_id, d.consumer_id, null::text from headrace_internal.find_due(v_namespace) d;
end
$$;
