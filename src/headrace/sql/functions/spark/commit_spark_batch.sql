-- Writes a batch of a Spark query: its staged rows become events (those with a topic) and actions, in the order of p_tokens and
-- places, in one transaction with the row that says so. Returns false, and writes nothing, when that row is there already.
-- Raises HR200 when staged rows are missing, or the batch came before with another number of rows.
-- Locks: the new row of spark_batch, for which a second commit of the same batch waits. Indexes: spark_batch_pkey, spark_stage_order.
create or replace function headrace.commit_spark_batch(
    p_query     text,
    p_batch     bigint,
    p_tokens    uuid[],
    p_rows      bigint,
    p_namespace text default null
) returns boolean
language plpgsql volatile
as $$
declare
    v_namespace text := headrace.current_namespace(p_namespace);
    v_before    bigint;
    v_fresh     boolean;
begin
    insert into headrace.spark_batch (namespace, query, batch, rows) values (v_namespace, p_query, p_batch, p_rows)
    on conflict on constraint spark_batch_pkey do nothing;
    v_fresh := found;
    if v_fresh then
        perform headrace.publish_stage(v_namespace, p_query, p_batch, p_tokens, p_rows);
    else
        select b.rows into v_before
        from headrace.spark_batch b where b.namespace = v_namespace and b.query = p_query and b.batch = p_batch;
        if v_before <> p_rows then
            raise exception 'batch % of Spark query "%" was written with % rows, and comes again with %', p_batch, p_query, v_before, p_rows
                using errcode = 'HR200', hint = 'Its checkpoint has gone back, or the query gives other rows each time: '
                    'start it with a new checkpoint from the offsets you want.';
        end if;
    end if;
    -- Attempts that failed or were overtaken have left rows, of this batch or earlier; those of writers that died wait a week.
    delete from headrace.spark_stage s
    where s.namespace = v_namespace and s.query = p_query and s.batch <= p_batch;
    delete from headrace.spark_stage s
    where s.namespace = v_namespace and s.staged_at < headrace.clock() - interval '7 days';
    -- Spark repeats its last batch only; the margin is for a checkpoint put back by hand.
    delete from headrace.spark_batch b
    where b.namespace = v_namespace and b.query = p_query and b.batch < p_batch - 1000;
    return v_fresh;
end
$$;

-- Publishes what the tokens have staged. Index: spark_stage_order, topic_name_unique.
create or replace function headrace.publish_stage(p_namespace text, p_query text, p_batch bigint, p_tokens uuid[], p_rows bigint)
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
    from headrace.spark_stage s
    left join headrace.topic t on t.namespace = p_namespace and t.topic = s.topic
    where s.namespace = p_namespace and s.query = p_query and s.batch = p_batch and s.token = any (p_tokens);
    if v_rows <> p_rows then
        raise exception 'batch % of Spark query "%" brought % rows, and % of them are there', p_batch, p_query, p_rows, v_rows
            using errcode = 'HR200', hint = 'The database restarted meanwhile; let Spark repeat the batch.';
    end if;
    if v_unknown is not null then
        perform headrace.raise_unknown_topic(v_unknown, p_namespace);
    end if;
    insert into headrace.outbox (topic_id, event_id, type, key, payload, headers, emitted_at, producer)
    select t.topic_id, s.event_id, s.type, s.key, s.payload, s.headers, coalesce(s.emitted_at, headrace.clock()), s.producer
    from unnest(p_tokens) with ordinality o (token, turn)
    join headrace.spark_stage s
        on s.namespace = p_namespace and s.query = p_query and s.batch = p_batch and s.token = o.token
    join headrace.topic t on t.namespace = p_namespace and t.topic = s.topic
    -- The outbox numbers rows as they come, and that number is the producer's order.
    order by o.turn, s.place;
    perform headrace.wake_topics(v_topics);
    select array_agg(jsonb_build_object(
        'id', s.event_id, 'action', s.type, 'payload', s.payload, 'key', s.key, 'priority', s.priority, 'namespace', p_namespace,
        'event_type', null, 'emitted_at', coalesce(s.emitted_at, headrace.clock()), 'producer', s.producer,
        'scheduled_task_id', null, 'cause', jsonb_build_object('query', p_query, 'batch', p_batch)) order by o.turn, s.place)
    into v_actions
    from unnest(p_tokens) with ordinality o (token, turn)
    join headrace.spark_stage s
        on s.namespace = p_namespace and s.query = p_query and s.batch = p_batch and s.token = o.token and s.topic is null;
    perform count(*) from headrace.send_actions(p_namespace, coalesce(v_actions, '{}'));
end
$$;
