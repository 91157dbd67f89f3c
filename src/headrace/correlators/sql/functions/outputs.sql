-- Returns the content of recorded outputs that become an action or an event: one row per output, in order. It quotes the completing event;
-- the output of a timer has none, and quotes the event that started the instance and the ids of its newest 100 evidence events.
-- If the evidence was cut, the event that started the instance is not known any more.
-- "trace" is the trace context of the event that it quotes, with those of its newest 32 other evidence events as links.
-- Index: log_position. It queries the topic's own branch: a query on the whole log plans and locks every topic. Prepared: its plan costs
-- more than its run.
-- Calls: json_depth, trace_headers, execute_prepared.
create or replace function headrace_internal.correlated(p_version_id bigint, p_ids bigint[], p_becomes text)
returns table (n bigint, id uuid, key text, wanted jsonb, payload jsonb, cause jsonb, event_type text, output_at timestamptz, trace jsonb)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_topic_id integer := (select v.topic_id from headrace_internal.correlator_version v where v.version_id = p_version_id);
begin
    return query
    select c.* from headrace_internal.execute_prepared(format('headrace_correlated_%s', v_topic_id), 'bigint, bigint[], text', format($statement$
    select i.n, f.output_id, nullif(f.key, ''), v.outputs -> f.token,
        jsonb_build_object('correlator', v.correlator, 'token', f.token, 'key', f.key, 'at', f.output_at, 'position', f.position,
            -- The payload of the event, unless the quotation would exceed the limits of an event.
            'evidence', f.evidence, 'type', l.type, 'payload', case when pg_column_size(l.payload) < 256
                or octet_length(l.payload::text) <= 1000000 and headrace.json_depth(l.payload, 128) < 128 then l.payload end)
            || case when f.captured is null then '{}' else jsonb_build_object('captured', f.captured) end
            || case when f.position is null then jsonb_build_object('evidence_ids', coalesce(e.ids, '[]')) else '{}' end,
        jsonb_build_object('kind', 'correlator', 'correlator', v.correlator, 'version', v.version, 'topic', t.topic,
            'position', f.position, 'event_id', f.event_id, 'correlation_id', f.correlation_id, 'token', f.token),
        l.type, f.output_at, l.trace || coalesce(k.links, '{}')
    from unnest($2) with ordinality i (correlation_id, n)
    cross join lateral (
        select f.correlation_id, f.key, f.position, f.event_id, f.token, f.output_at, f.evidence, f.becomes, f.output_id, f.topic_id, f.captured,
            coalesce(f.position, case when f.evidence_total = cardinality(f.evidence) then f.evidence[1] end) as quoted
        from headrace_internal.correlation f where f.correlation_id = i.correlation_id offset 0
    ) f
    join headrace_internal.correlator_version v on v.version_id = $1
    join headrace_internal.topic t on t.topic_id = f.topic_id
    left join lateral (
        select l.type, l.payload, headrace_internal.trace_headers(l.headers) - 'tracelinks' as trace
        from headrace_internal.%1$I l where l.position = f.quoted limit 1
    ) l on true
    -- Only if the quoted event has a trace context: without tracing nothing is looked up.
    left join lateral (
        select jsonb_build_object('tracelinks', jsonb_agg(t.traceparent order by t.position)) as links
        from (
            select headrace_internal.trace_headers(l.headers) -> 'traceparent' as traceparent, l.position
            from unnest(case when l.trace is not null then f.evidence[greatest(cardinality(f.evidence) - 32, 1):] end) p (position)
            join headrace_internal.%1$I l on l.position = p.position and p.position <> f.quoted
        ) t
        where t.traceparent is not null
        having count(*) > 0
    ) k on true
    left join lateral (
        select jsonb_agg(l.event_id order by l.position) as ids
        from unnest(f.evidence[greatest(cardinality(f.evidence) - 99, 1):]) p (position)
        join headrace_internal.%1$I l on l.position = p.position
        where f.position is null
    ) e on true
    where f.becomes = $3
    $statement$, 'log_' || v_topic_id), format('%s, %L, %L', p_version_id, p_ids, p_becomes))
        c (n bigint, id uuid, key text, wanted jsonb, payload jsonb, cause jsonb, event_type text, output_at timestamptz, trace jsonb);
end
$$;

-- Sends the actions of recorded outputs. In chunks, because an array is limited to 1 GB, and a payload may have 1 MB.
-- Calls: correlated, send_actions.
create or replace function headrace_internal.send_correlated(p_version_id bigint, p_ids bigint[]) returns void
language plpgsql volatile
as $$
declare
    v_namespace text;
    v_actions   jsonb[];
    v_delays    integer[];
begin
    select v.namespace into v_namespace from headrace_internal.correlator_version v where v.version_id = p_version_id;
    for v_actions, v_delays in
        select array_agg(o.envelope order by o.n), array_agg(o.delay_s order by o.n)
        from (
            select o.n, o.delay_s,
                case when o.trace is null then to_jsonb(e) else to_jsonb(e) || jsonb_build_object('headers', o.trace) end as envelope,
                sum(pg_column_size(o.payload)) over (order by o.n rows unbounded preceding) as bytes
            from (
                select o.n, o.id, o.key, o.payload, o.cause, o.event_type, o.output_at, o.trace, o.wanted ->> 'action' as action,
                    coalesce((o.wanted ->> 'priority')::integer, 0) as priority, coalesce((o.wanted ->> 'delay_s')::integer, 0) as delay_s
                from headrace_internal.correlated(p_version_id, p_ids, 'action') o
            ) o
            cross join lateral (
                select o.id, o.action, o.payload, o.key, o.priority, v_namespace as namespace, o.event_type,
                    o.output_at as emitted_at, null::text as producer, o.cause
            ) e
        ) o
        group by o.n / 1000, o.bytes / 16000000
        order by min(o.n)
    loop
        perform headrace.send_actions(v_namespace, v_actions, case when 0 = all (v_delays) then null else v_delays end);
    end loop;
end
$$;

-- Publishes the events of recorded outputs. Their ids follow from the outputs, so an event that is published twice is one event.
-- Calls: topic_id, correlated, react_inline, write_events.
create or replace function headrace_internal.publish_correlated(p_version_id bigint, p_ids bigint[]) returns void
language plpgsql volatile
as $$
declare
    v_version record;
begin
    select v.namespace, v.correlator into v_version from headrace_internal.correlator_version v where v.version_id = p_version_id;
    perform headrace_internal.write_events(array(
        select row(null, e.emitted_at, e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.producer)::headrace_internal.outbox
        from (
            -- headrace.topic_id raises HR101 for a topic that does not exist.
            select coalesce(t.topic_id, headrace.topic_id(o.wanted ->> 'topic', v_version.namespace)) as topic_id, t.has_inline_rules, o.id as event_id, o.wanted ->> 'event' as type,
                case when coalesce((o.wanted ->> 'keyed')::boolean, true) then o.key end as key, o.payload,
                jsonb_build_object('cause', o.cause) || coalesce(o.trace, '{}') as headers, o.output_at as emitted_at,
                'correlator ' || v_version.correlator as producer
            from headrace_internal.correlated(p_version_id, p_ids, 'event') o
            left join headrace_internal.topic t on t.namespace = v_version.namespace and t.topic = o.wanted ->> 'topic'
            order by o.n) e
        where not e.has_inline_rules or headrace_internal.react_inline(
                e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.emitted_at, e.producer)));
end
$$;

-- Delivers the outputs of a correlator: records them and sends the actions or events that they become, together. An output that was
-- delivered before is not delivered again. Runs in the transaction that also writes the instances and moves the cursor.
-- Returns the number of new outputs. Every engine delivers through this function. One entry per output in each array, in the order of the
-- outputs: key; position of the completing event (null: a timer); time (null: the event's own; for a timer, its deadline); token; place
-- among the outputs of that event or deadline of that key, from 1; evidence as '{1,2}'; number of evidence positions before it was cut;
-- what the registers held, as JSON.
-- Indexes: correlation_once, log_position.
-- Calls: hash_id, send_correlated, publish_correlated.
create or replace function headrace_internal.deliver_correlations(
    p_version_id bigint,
    p_keys       text[],
    p_positions  bigint[],
    p_times      timestamptz[],
    p_tokens     text[],
    p_places     integer[],
    p_evidence   text[],
    p_totals     integer[],
    p_captured   text[] default null
) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    v_version record;
    v_sent    record;
begin
    select v.topic_id, v.outputs into v_version from headrace_internal.correlator_version v where v.version_id = p_version_id;
    -- Queries the topic's own branch: a query on the whole log plans and locks every topic.
    execute format($statement$
    with fired as (
        insert into headrace_internal.correlation (topic_id, version_id, key, position, event_id, token, output_at, place, evidence,
            evidence_total, becomes, name, output_id, captured)
        select $1, $2, o.key, o.position, l.event_id, o.token, coalesce(o.at, l.appended_at), o.place,
            o.evidence::bigint[], o.total, case when w.wanted ? 'action' then 'action' when w.wanted ? 'event' then 'event' end,
            coalesce(w.wanted ->> 'action', w.wanted ->> 'event'),
            headrace_internal.hash_id(concat_ws(':', $2, coalesce(o.position, 0), extract(epoch from coalesce(o.at, l.appended_at)),
                o.place, o.key)), o.captured::jsonb
        from unnest($4, $5, $6, $7, $8, $9, $10, $11)
            with ordinality o (key, position, at, token, place, evidence, total, captured, n)
        left join lateral (
            select l.event_id, l.appended_at from headrace_internal.%I l where l.position = o.position limit 1
        ) l on true
        cross join lateral (select $3 -> o.token as wanted) w
        order by o.n
        on conflict on constraint correlation_once do nothing
        returning correlation_id, becomes
    )
    select array_agg(f.correlation_id order by f.correlation_id) as ids, bool_or(f.becomes = 'action') as has_actions,
        bool_or(f.becomes = 'event') as has_events
    from fired f
    $statement$, 'log_' || v_version.topic_id) into v_sent
    using v_version.topic_id, p_version_id, v_version.outputs, p_keys, p_positions, p_times, p_tokens, p_places, p_evidence, p_totals,
        p_captured;
    if v_sent.has_actions then
        perform headrace_internal.send_correlated(p_version_id, v_sent.ids);
    end if;
    if v_sent.has_events then
        perform headrace_internal.publish_correlated(p_version_id, v_sent.ids);
    end if;
    return coalesce(cardinality(v_sent.ids), 0);
end
$$;
