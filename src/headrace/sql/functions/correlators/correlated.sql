-- The content of recorded outputs that become an action or an event: one row per output, in order. It quotes the completing event;
-- the output of a timer has none, and quotes the event that started the instance and the ids of its newest 100 evidence events.
-- If the evidence was cut, the event that started the instance is not known any more.
-- "trace" is the trace context of the event that it quotes, with those of its newest 32 other evidence events as links.
-- Index: log_position. It names the topic's own branch: by the whole log it would be planned for, and lock, every topic.
create or replace function headrace_internal.correlated(p_version_id bigint, p_ids bigint[], p_becomes text)
returns table (n bigint, id uuid, key text, wanted jsonb, payload jsonb, cause jsonb, event_type text, output_at timestamptz, trace jsonb)
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    return query execute format($statement$
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
    $statement$, 'log_' || (select v.topic_id from headrace_internal.correlator_version v where v.version_id = p_version_id))
    using p_version_id, p_ids, p_becomes;
end
$$;
