-- Publishes the rows that the tokens have staged. Index: spark_stage_order, topic_name_unique.
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
        raise exception 'batch % of Spark query "%" brought % rows, and % of them are there', p_batch, p_query, p_rows, v_rows
            using errcode = 'HR200', hint = 'The database restarted meanwhile; let Spark repeat the batch.';
    end if;
    perform headrace_internal.refuse_reserved_topic(t.topic) from headrace_internal.topic t where t.topic_id = any (v_topics);
    if v_unknown is not null then
        perform headrace_internal.raise_unknown_topic(v_unknown, p_namespace);
    end if;
    insert into headrace_internal.outbox (topic_id, event_id, type, key, payload, headers, emitted_at, producer)
    select e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.emitted_at, e.producer
    from (
        select t.topic_id, t.has_inline_rules, s.event_id, s.type, s.key, s.payload, s.headers,
            coalesce(s.emitted_at, headrace.clock()) as emitted_at, s.producer
        from unnest(p_tokens) with ordinality o (token, turn)
        join headrace_internal.spark_stage s
            on s.namespace = p_namespace and s.query = p_query and s.batch = p_batch and s.token = o.token
        join headrace_internal.topic t on t.namespace = p_namespace and t.topic = s.topic
        where not t.checks_payloads or headrace_internal.check_payload(p_namespace, s.type, s.payload)
        -- The outbox numbers rows in the order of the insert, and that number is the producer's order.
        order by o.turn, s.place) e
    where not e.has_inline_rules or headrace_internal.react_inline(
            e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.emitted_at, e.producer);
    perform headrace_internal.wake_topics(v_topics);
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
