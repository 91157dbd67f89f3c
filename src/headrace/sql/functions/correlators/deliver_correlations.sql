-- Delivers the outputs of a correlator: records them and sends the actions or events that they become, together. An output that
-- was delivered before is not delivered again. Runs in the transaction that also writes the instances and moves the cursor.
-- Returns the number of new outputs.
-- Every engine delivers through this function. One entry per output in each array, in the order of the outputs: key; position of
-- the completing event (null: a timer); time (null: the event's own; for a timer, its deadline); token; place among the outputs of
-- that event or deadline of that key, from 1; evidence as '{1,2}'; number of evidence positions before it was cut; what the
-- registers held, as JSON.
-- Indexes: correlation_once, log_position.
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
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_version record;
    v_ids     bigint[];
begin
    select v.topic_id, v.outputs into v_version from headrace_internal.correlator_version v where v.version_id = p_version_id;
    -- By the topic's own branch: by the whole log it would be planned for, and lock, every topic.
    execute format($statement$
    with fired as (
        insert into headrace_internal.correlation (topic_id, version_id, key, position, event_id, token, output_at, place, evidence,
            evidence_total, becomes, name, output_id, captured)
        select $1, $2, o.key, o.position, l.event_id, o.token, coalesce(o.at, l.appended_at), o.place,
            o.evidence::bigint[], o.total, case when w.wanted ? 'action' then 'action' when w.wanted ? 'event' then 'event' end,
            coalesce(w.wanted ->> 'action', w.wanted ->> 'event'),
            headrace_internal.output_id($2, o.key, o.position, coalesce(o.at, l.appended_at), o.place), o.captured::jsonb
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
    select array_agg(f.correlation_id order by f.correlation_id) from fired f
    $statement$, 'log_' || v_version.topic_id) into v_ids
    using v_version.topic_id, p_version_id, v_version.outputs, p_keys, p_positions, p_times, p_tokens, p_places, p_evidence, p_totals,
        p_captured;
    if v_ids is null then
        return 0;
    end if;
    perform headrace_internal.send_correlated(p_version_id, v_ids);
    perform headrace_internal.publish_correlated(p_version_id, v_ids);
    return cardinality(v_ids);
end
$$;
