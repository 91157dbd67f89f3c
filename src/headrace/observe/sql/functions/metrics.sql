-- Metric headrace_outbox_waiting: the events of each topic that are committed and not sequenced. Only topics with such events.
-- Counted by an index up to 10 000 events together, shared by the topics that have some. Topics with more share what the statistics
-- say that there is beyond that: an estimate, which is 0 after a crash of the server until the outbox is written again.
-- Index: outbox_order, whatever the statistics of this fast-changing table say.
-- Calls: outbox_topics.
create or replace function headrace_internal.metrics_of_outbox(p_namespaces text[])
returns table (metric text, labels text[], value double precision)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_topics integer[] := array(select w.topic_id from headrace_internal.outbox_topics() w (topic_id));
    v_limit   integer := greatest(10000 / greatest(cardinality(v_topics), 1), 10);
    v_live   bigint := (
        select coalesce(sum(pg_stat_get_live_tuples(i.inhrelid)), 0) from pg_inherits i where i.inhparent = 'headrace_internal.outbox'::regclass);
begin
    return query
    with waiting as (
        select w.topic_id, (
            select count(*) from (
                select from headrace_internal.outbox o where o.topic_id = w.topic_id order by o.topic_id, o.id limit v_limit) o) as events
        from unnest(v_topics) w (topic_id)
    ), total as (
        select sum(w.events) as events, nullif(count(*) filter (where w.events = v_limit), 0) as full_topics from waiting w
    )
    select 'headrace_outbox_waiting', array[t.namespace, t.topic],
        (w.events + case when w.events = v_limit then coalesce(greatest(v_live - s.events, 0) / s.full_topics, 0) else 0 end)::double precision
    from waiting w
    cross join total s
    join headrace_internal.topic t on t.topic_id = w.topic_id
    where t.namespace = any (p_namespaces);
end
$$;

-- Returns the one value of a query; with p_prepare by a prepared statement of the session, which spares its planning: see
-- headrace_internal.metrics_of_log.
create or replace function headrace_internal.query_value(p_name text, p_query text, p_prepare boolean) returns jsonb
language plpgsql volatile
as $$
declare
    v_value jsonb;
begin
    if not p_prepare then
        execute p_query into v_value;
        return v_value;
    end if;
    begin
        execute 'execute ' || p_name into v_value;
    exception
        -- It is not prepared in this session yet (a syntax error on PostgreSQL 15).
        when invalid_sql_statement_name or syntax_error then
            execute 'prepare ' || p_name || ' as ' || p_query;
            execute 'execute ' || p_name into v_value;
    end;
    return v_value;
end
$$;

-- Metrics of the queues of each namespace and of dead letters. headrace_action_queue: the actions by state (due, in-flight, retrying,
-- delayed, held; see headrace_internal.action_state). headrace_action_wait_seconds: how long the oldest due action has been due, 0 if none
-- is. Each state is counted up to 1 000 actions; of the actions that were claimed before, 1 000 are looked at. If more than 1 000 are due,
-- the rest of the queue counts as due, by the statistics of the table. headrace_dead_letters: the open dead letters by kind and reason. The
-- first 1 000 of each kind are counted by their reason. If there are more: of actions the number is scaled by what the statistics of the
-- table say; of events it stays at 1 000.
-- Indexes: pgmq's on vt, q_<queue>_retried, attempt_action, dead_letter_held, the primary key of the queue of dead letters; whatever the
-- statistics of these fast-changing tables say.
-- Calls: queue_of, action_state, dead_letter_queue, query_value.
create or replace function headrace_internal.metrics_of_queues(p_namespaces text[], p_prepare boolean)
returns table (metric text, labels text[], value double precision)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_namespace text;
    v_name      text;
    v_queue     regclass;
    v_query     text;
    v_states    jsonb;
begin
    foreach v_namespace in array p_namespaces loop
        v_name := headrace_internal.queue_of(v_namespace);
        v_queue := format('pgmq.%I', 'q_' || v_name)::regclass;
        v_query := format($sql$
            select jsonb_build_object(
                'due', (select count(*) from (
                    select from %1$s q where q.vt <= headrace.clock() order by q.vt limit 1000) q),
                'delayed', (select count(*) from (
                    select from %1$s q
                    where q.vt > headrace.clock() and q.vt <= headrace.clock() + interval '25 years' and q.read_ct = 0
                    order by q.vt limit 1000) q),
                'held', (select count(*) from (
                    select from %1$s q where q.vt > headrace.clock() + interval '25 years' order by q.vt limit 1000) q),
                'oldest', coalesce(date_part('epoch', headrace.clock() - (
                    select q.vt from %1$s q where q.vt <= headrace.clock() order by q.vt limit 1)), 0),
                'in-flight', 0, 'retrying', 0) || coalesce((
                    select jsonb_object_agg(s.state, s.actions)
                    from (
                        select headrace_internal.action_state(%2$L, q.vt, q.read_ct, q.message ->> 'id') as state, count(*) as actions
                        from (
                            select q.vt, q.read_ct, q.message from %1$s q
                            where q.vt > headrace.clock() and q.vt <= headrace.clock() + interval '25 years' and q.read_ct > 0
                            order by q.vt limit 1000) q
                        group by 1) s), '{}')
            $sql$, v_queue, v_namespace);
        v_states := headrace_internal.query_value('headrace_metrics_queue_' || v_queue::oid, v_query, p_prepare);
        return query select 'headrace_action_wait_seconds', array[v_namespace], (v_states ->> 'oldest')::double precision;
        v_states := v_states - 'oldest';
        if (v_states ->> 'due')::bigint = 1000 then
            v_states := v_states || jsonb_build_object('due', greatest(1000, pg_stat_get_live_tuples(v_queue) - (
                select sum(s.value::bigint) from jsonb_each_text(v_states) s where s.key <> 'due')));
        end if;
        return query select 'headrace_action_queue', array[v_namespace, s.key], s.value::double precision from jsonb_each_text(v_states) s;
        v_queue := format('pgmq.%I', 'q_' || headrace_internal.dead_letter_queue(v_name))::regclass;
        v_query := format($sql$
            with letters as (
                select coalesce(left(d.message ->> 'reason', 100), '') as reason from (
                    select d.message from %s d order by d.msg_id limit 1000) d
            ), total as (
                select count(*) as letters from letters
            )
            select coalesce(jsonb_object_agg(r.reason, r.letters), '{}')
            from (
                select l.reason, count(*)
                    * case when t.letters = 1000 then greatest(pg_stat_get_live_tuples(%s), 1000) / 1000.0 else 1 end as letters
                from letters l cross join total t
                group by l.reason, t.letters) r
            $sql$, v_queue, v_queue::oid);
        return query
        select 'headrace_dead_letters', array[v_namespace, 'action', l.key], l.value::double precision
        from jsonb_each_text(headrace_internal.query_value('headrace_metrics_letters_' || v_queue::oid, v_query, p_prepare)) l;
        return query
        select 'headrace_dead_letters', array[v_namespace, 'event', left(d.reason, 100)], count(*)::double precision
        from (
            select d.reason
            from headrace_internal.topic t
            join headrace_internal.consumer c on c.topic_id = t.topic_id
            cross join lateral (
                select d.reason from headrace_internal.dead_letter d
                where d.consumer_id = c.consumer_id and d.state in ('dead', 'behind', 'redrive')
                order by d.consumer_id, d.key limit 1000) d
            where t.namespace = v_namespace
            limit 1000
        ) d
        group by left(d.reason, 100);
    end loop;
end
$$;

-- Metric headrace_rule_firings_total: how often each rule has fired on the events after the position that p_known has for its topic, up to
-- the position of the topic's rules, which is returned as headrace_known. A topic that is not in p_known is new to the caller: its count
-- starts there. Exact: firings commit together with that position. At most 100 000 positions per call, so that one call stays short; the
-- next one continues. Index: firing_position.
create or replace function headrace_internal.metrics_of_rules(p_namespaces text[], p_known jsonb)
returns table (metric text, labels text[], value double precision)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_topic record;
begin
    for v_topic in
        select t.topic_id, t.namespace, t.topic, a.after, least(u.position, coalesce(a.after, u.position) + 100000) as upto
        from headrace_internal.topic t
        join headrace_internal.consumer c on c.topic_id = t.topic_id and c.consumer = 'headrace.rules'
        join headrace_internal.cursor u on u.consumer_id = c.consumer_id and u.partition = -1
        cross join lateral (select (p_known ->> ('rules ' || t.topic_id))::bigint as after) a
        where t.namespace = any (p_namespaces)
    loop
        return query select 'headrace_known', array['rules ' || v_topic.topic_id, v_topic.upto::text], null::double precision;
        if v_topic.after < v_topic.upto then
            return query
            select 'headrace_rule_firings_total', array[v_topic.namespace, v_topic.topic, v.rule], sum(f.firings)::double precision
            from (
                select f.rule_version_id, count(*) as firings from headrace_internal.firing f
                where f.topic_id = v_topic.topic_id and f.position > v_topic.after and f.position <= v_topic.upto
                group by f.rule_version_id
            ) f
            join headrace_internal.rule_version v on v.version_id = f.rule_version_id
            group by v.rule;
        end if;
    end loop;
end
$$;

-- Returns all numbers of the database that a node shows as metrics, in the namespaces where the caller holds the level consume: the name of the
-- metric, the values of its labels in the order of headrace.observe.metrics.FAMILIES, and the value.
-- Nothing is counted that grows with the log: positions have no gaps, so a count is a difference. Queues, dead letters and the outbox
-- are counted up to a bound, see headrace_internal.metrics_of_queues and the functions beside it.
-- p_known: what the call before returned in rows of the metric headrace_known, as {labels[1]: labels[2]}. It saves look-ups, and firings
-- of rules are counted since then.
-- p_log_bytes: the size of the log, too, which takes as long as all the rest.
-- Locks nothing but what reading locks.
-- Calls: above_namespaces, metrics_of_log, metrics_of_outbox, metrics_of_queues, metrics_of_rules.
create or replace function headrace.metrics(
    p_known jsonb default '{}', p_log_bytes boolean default true, p_caller headrace_internal.caller default current_user
) returns table (metric text, labels text[], value double precision)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespaces text[] := headrace_internal.authorized_namespaces(p_caller, 'consume');
    -- Do not cache plans for the queues of many namespaces: each takes some 40 kB of memory.
    v_prepare    boolean := headrace_internal.above_namespaces(p_caller);
begin
    return query select m.metric, m.labels, m.value from headrace_internal.metrics_of_log(
        v_namespaces, p_known, v_prepare) m;
    return query select m.metric, m.labels, m.value from headrace_internal.metrics_of_outbox(v_namespaces) m;
    return query select m.metric, m.labels, m.value from headrace_internal.metrics_of_queues(v_namespaces, v_prepare and cardinality(v_namespaces) <= 20) m;
    return query select 'headrace_notification_queue_usage', '{}'::text[], pg_notification_queue_usage();
    -- A lost node has sent no heartbeat for 90 seconds, and did not stop in order; it is forgotten after a day. Two nodes of one name
    -- count as up if one of them is.
    return query
    select 'headrace_node_up', array[n.namespace, n.name],
        max((n.heartbeat_at > headrace.clock() - interval '90 seconds')::integer)::double precision
    from headrace_internal.node n
    where n.stopped_at is null and n.namespace = any (v_namespaces)
    group by n.namespace, n.name;
    return query select m.metric, m.labels, m.value from headrace_internal.metrics_of_rules(v_namespaces, p_known) m;
    if p_log_bytes then
        -- About 70 µs of CPU per time partition (measured): every file is asked for its size. Empty time partitions, such as those
        -- of coming months, are left out.
        return query
        select 'headrace_log_bytes', array[t.namespace, t.topic],
            coalesce(sum(case when pg_relation_size(i.inhrelid) > 0 then pg_total_relation_size(i.inhrelid) end), 0)::double precision
        from headrace_internal.topic t
        join pg_class c on c.relname = 'log_' || t.topic_id and c.relnamespace = 'headrace_internal'::regnamespace
        left join pg_inherits i on i.inhparent = c.oid
        where t.namespace = any (v_namespaces)
        group by t.namespace, t.topic;
    end if;
end
$$;
