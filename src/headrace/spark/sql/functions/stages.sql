-- Stages rows of one task's attempt of a Spark batch. A row that breaks a limit raises here, before anything is published.
-- Takes the level publish. The arrays have one element per row.
-- Calls: uuid_v7, event_within_limits, time_within_limits.
create or replace function headrace.stage_rows(
    p_query text, p_batch bigint, p_token uuid, p_place bigint[], p_topic text[], p_type text[], p_key text[], p_payload text[],
    p_headers text[], p_event_id text[], p_emitted_at timestamptz[], p_producer text[], p_priority integer[],
    p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'publish', p_namespace);
begin
    insert into headrace_internal.spark_stage
        (namespace, query, batch, token, place, topic, type, key, payload, headers, event_id, emitted_at, producer, priority)
    select v_namespace, p_query, p_batch, p_token, r.place, r.topic, r.type, r.key, r.payload, r.headers,
        coalesce(r.event_id::uuid, headrace.uuid_v7()), r.emitted_at, r.producer, coalesce(r.priority, 0)
    from (
        select u.place, u.topic, u.type, u.key, u.payload::jsonb as payload, coalesce(u.headers::jsonb, '{}') as headers, u.event_id,
            u.emitted_at, u.producer, u.priority
        from unnest(p_place, p_topic, p_type, p_key, p_payload, p_headers, p_event_id, p_emitted_at, p_producer, p_priority)
            u (place, topic, type, key, payload, headers, event_id, emitted_at, producer, priority)
        -- Without it the planner merges the queries, and every payload is parsed twice.
        offset 0
    ) r
    where headrace.event_within_limits(r.type, r.key, r.payload, r.headers, r.producer) and headrace.time_within_limits(r.emitted_at);
end
$$;

-- Publishes the rows that the tokens have staged. Index: spark_stage_order, topic_name_unique.
-- Calls: refuse_reserved_topic, raise_unknown_topic, check_payload, react_inline, write_events, send_actions.
create or replace function headrace_internal.publish_stage(p_namespace text, p_query text, p_batch bigint, p_tokens uuid[], p_rows bigint)
returns void
language plpgsql volatile
as $$
declare
    v_rows    bigint;
    v_unknown text;
    v_topics  integer[];
    v_actions jsonb[];
begin
    select count(*), min(s.topic) filter (where s.topic is not null and t.topic_id is null),
        array_agg(distinct t.topic_id) filter (where t.topic_id is not null)
    into v_rows, v_unknown, v_topics
    from headrace_internal.spark_stage s
    left join headrace_internal.topic t on t.namespace = p_namespace and t.topic = s.topic
    where s.namespace = p_namespace and s.query = p_query and s.batch = p_batch and s.token = any (p_tokens);
    if v_rows <> p_rows then
        raise exception 'batch % of Spark query "%" declared % rows, but % were staged', p_batch, p_query, p_rows, v_rows
            using errcode = 'HR200', hint = 'The database restarted meanwhile; let Spark repeat the batch.';
    end if;
    perform headrace_internal.refuse_reserved_topic(t.topic) from headrace_internal.topic t where t.topic_id = any (v_topics);
    if v_unknown is not null then
        perform headrace_internal.raise_unknown_topic(v_unknown, p_namespace);
    end if;
    -- In parts: an array holds at most 1 GB.
    perform headrace_internal.write_events(p.events)
    from (
        select array_agg(row(null, e.emitted_at, e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.producer)::headrace_internal.outbox
            order by e.number) as events
        from (
            select row_number() over (order by o.turn, s.place) as number, t.topic_id, t.has_inline_rules, s.event_id, s.type, s.key,
                s.payload, s.headers, coalesce(s.emitted_at, headrace.clock()) as emitted_at, s.producer
            from unnest(p_tokens) with ordinality o (token, turn)
            join headrace_internal.spark_stage s
                on s.namespace = p_namespace and s.query = p_query and s.batch = p_batch and s.token = o.token
            join headrace_internal.topic t on t.namespace = p_namespace and t.topic = s.topic
            where not t.checks_payloads or headrace_internal.check_payload(p_namespace, s.type, s.payload)
            order by number) e
        where not e.has_inline_rules or headrace_internal.react_inline(
                e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.emitted_at, e.producer)
        group by e.number / 200
        order by e.number / 200) p;
    select array_agg(jsonb_build_object(
        'id', s.event_id, 'action', s.type, 'payload', s.payload, 'key', s.key, 'priority', s.priority, 'namespace', p_namespace,
        'event_type', null, 'emitted_at', coalesce(s.emitted_at, headrace.clock()), 'producer', s.producer,
        'scheduled_task_id', null, 'cause', jsonb_build_object('query', p_query, 'batch', p_batch)) order by o.turn, s.place)
    into v_actions
    from unnest(p_tokens) with ordinality o (token, turn)
    join headrace_internal.spark_stage s
        on s.namespace = p_namespace and s.query = p_query and s.batch = p_batch and s.token = o.token and s.topic is null;
    perform count(*) from headrace.send_actions(p_namespace, coalesce(v_actions, '{}'));
end
$$;

-- Commits a batch of a Spark query: its staged rows become events (those with a topic) and actions, in the order of p_tokens and
-- places, in one transaction with the row that records the batch. Returns false, and writes nothing, if that row exists already.
-- Raises HR200 when staged rows are missing, or when the batch was committed before with another number of rows.
-- Locks: the new row of spark_batch, for which a second commit of the same batch waits. Indexes: spark_batch_pkey,
-- spark_stage_order.
-- Calls: publish_stage.
create or replace function headrace.commit_spark_batch(
    p_query     text,
    p_batch     bigint,
    p_tokens    uuid[],
    p_rows      bigint,
    p_namespace text default null,
    p_caller    headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'publish', p_namespace);
    v_before    bigint;
    v_fresh     boolean;
begin
    insert into headrace_internal.spark_batch (namespace, query, batch, rows) values (v_namespace, p_query, p_batch, p_rows)
    on conflict on constraint spark_batch_pkey do nothing;
    v_fresh := found;
    if v_fresh then
        perform headrace_internal.publish_stage(v_namespace, p_query, p_batch, p_tokens, p_rows);
    else
        select b.rows into v_before
        from headrace_internal.spark_batch b where b.namespace = v_namespace and b.query = p_query and b.batch = p_batch;
        if v_before <> p_rows then
            raise exception 'batch % of Spark query "%" was committed with % rows and is now repeated with %', p_batch, p_query, v_before, p_rows
                using errcode = 'HR200', hint = 'Its checkpoint has gone back, or the query gives other rows each time: '
                    'start it with a new checkpoint from the offsets you want.';
        end if;
    end if;
    -- Failed or superseded attempts have left rows, of this batch or earlier; those of dead writers are kept for a week.
    delete from headrace_internal.spark_stage s
    where s.namespace = v_namespace and s.query = p_query and s.batch <= p_batch;
    delete from headrace_internal.spark_stage s
    where s.namespace = v_namespace and s.staged_at < headrace.clock() - interval '7 days';
    -- Spark repeats only its last batch; the margin is for a checkpoint restored by hand.
    delete from headrace_internal.spark_batch b
    where b.namespace = v_namespace and b.query = p_query and b.batch < p_batch - 1000;
    return v_fresh;
end
$$;

-- Deletes the rows that the attempts of a failed Spark batch have staged. Takes the level publish. Index: spark_stage_order.
-- Calls: current_namespace.
create or replace function headrace.drop_staged_rows(
    p_query text, p_batch bigint, p_tokens uuid[], p_namespace text default null,
    p_caller headrace_internal.caller default current_user
) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.authorize(p_caller, 'publish', p_namespace);
    delete from headrace_internal.spark_stage s
    where s.namespace = headrace.current_namespace(p_namespace) and s.query = p_query and s.batch = p_batch and s.token = any (p_tokens);
$$;
