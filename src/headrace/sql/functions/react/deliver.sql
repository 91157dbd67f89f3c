-- The id of what an output becomes: it follows from the output, so it is the same wherever it is computed. A uuid of version 8.
create or replace function headrace.output_id(p_version_id bigint, p_key text, p_position bigint, p_at timestamptz, p_place integer)
returns uuid
language sql immutable parallel safe
as $$
    select overlay(overlay(md5(concat_ws(':', p_version_id, coalesce(p_position, 0), extract(epoch from p_at), p_place, p_key))
        placing '8' from 13) placing '8' from 17)::uuid
$$;

-- The payload of the completing event as it goes into what an output becomes; null where that would break the limits of an event.
create or replace function headrace.quoted_payload(p_payload jsonb) returns jsonb
language sql immutable parallel safe
as $$
    select case when pg_column_size(p_payload) < 256 or octet_length(p_payload::text) <= 1000000 and headrace.json_depth(p_payload, 128) < 128
        then p_payload end
$$;

-- Delivers outputs of a correlator: records them and sends what they become, an action or an event, together. What was delivered before
-- is not delivered again. In the transaction that also writes the instances and moves the cursor. Returns how many were new.
-- This is the door for every engine. One entry per output in each array, in the order they were made: key; position of the completing
-- event (null: a timer); time (null: the event's own; for a timer, its deadline); token; place among the outputs of that event or
-- deadline of that key, from 1; evidence as '{1,2}'; how many positions the evidence had before it was cut.
-- Indexes: correlation_once, log_position.
create or replace function headrace.deliver_correlations(
    p_version_id bigint,
    p_keys       text[],
    p_positions  bigint[],
    p_times      timestamptz[],
    p_tokens     text[],
    p_places     integer[],
    p_evidence   text[],
    p_totals     integer[]
) returns integer
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_version record;
    v_ids     bigint[];
begin
    select v.topic_id, v.outputs into v_version from headrace.correlator_version v where v.version_id = p_version_id;
    with fired as (
        insert into headrace.correlation (topic_id, version_id, key, position, event_id, token, output_at, place, evidence,
            evidence_total, becomes, name, output_id)
        select v_version.topic_id, p_version_id, o.key, o.position, l.event_id, o.token, coalesce(o.at, l.appended_at), o.place,
            o.evidence::bigint[], o.total, case when w.wanted ? 'action' then 'action' when w.wanted ? 'event' then 'event' end,
            coalesce(w.wanted ->> 'action', w.wanted ->> 'event'),
            headrace.output_id(p_version_id, o.key, o.position, coalesce(o.at, l.appended_at), o.place)
        from unnest(p_keys, p_positions, p_times, p_tokens, p_places, p_evidence, p_totals)
            with ordinality o (key, position, at, token, place, evidence, total, n)
        left join lateral (
            select l.event_id, l.appended_at from headrace.log l
            where l.topic_id = v_version.topic_id and l.position = o.position limit 1
        ) l on true
        cross join lateral (select v_version.outputs -> o.token as wanted) w
        order by o.n
        on conflict on constraint correlation_once do nothing
        returning correlation_id, becomes
    )
    select array_agg(f.correlation_id order by f.correlation_id) into v_ids from fired f;
    if v_ids is null then
        return 0;
    end if;
    perform headrace.send_correlated(p_version_id, v_ids);
    perform headrace.publish_correlated(p_version_id, v_ids);
    return cardinality(v_ids);
end
$$;

-- What recorded outputs say, for actions and for events. One row per output that becomes one, in order.
create or replace function headrace.correlated(p_version_id bigint, p_ids bigint[], p_becomes text)
returns table (n bigint, id uuid, key text, wanted jsonb, payload jsonb, cause jsonb, event_type text, output_at timestamptz)
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return query
    select i.n, f.output_id, nullif(f.key, ''), v.outputs -> f.token,
        jsonb_build_object('correlator', v.correlator, 'token', f.token, 'key', f.key, 'at', f.output_at, 'position', f.position,
            'evidence', f.evidence, 'type', l.type, 'payload', headrace.quoted_payload(l.payload)),
        jsonb_build_object('kind', 'correlator', 'correlator', v.correlator, 'version', v.version, 'topic', t.topic,
            'position', f.position, 'event_id', f.event_id, 'correlation_id', f.correlation_id, 'token', f.token),
        l.type, f.output_at
    from unnest(p_ids) with ordinality i (correlation_id, n)
    cross join lateral (
        select f.correlation_id, f.key, f.position, f.event_id, f.token, f.output_at, f.evidence, f.becomes, f.output_id, f.topic_id
        from headrace.correlation f where f.correlation_id = i.correlation_id offset 0
    ) f
    join headrace.correlator_version v on v.version_id = p_version_id
    join headrace.topic t on t.topic_id = f.topic_id
    left join lateral (
        select l.type, l.payload from headrace.log l where l.topic_id = f.topic_id and l.position = f.position limit 1
    ) l on true
    where f.becomes = p_becomes;
end
$$;

-- Puts the actions of recorded outputs into the queue. In pieces: an array ends at 1 GB, and a payload may have 1 MB.
create or replace function headrace.send_correlated(p_version_id bigint, p_ids bigint[]) returns void
language plpgsql volatile
as $$
declare
    v_namespace text;
    v_actions   jsonb[];
    v_delays    integer[];
begin
    select v.namespace into v_namespace from headrace.correlator_version v where v.version_id = p_version_id;
    for v_actions, v_delays in
        select array_agg(o.envelope order by o.n), array_agg(o.delay_s order by o.n)
        from (
            select o.n, o.delay_s, to_jsonb(e) as envelope,
                sum(pg_column_size(o.payload)) over (order by o.n rows unbounded preceding) as bytes
            from (
                select o.n, o.id, o.key, o.payload, o.cause, o.event_type, o.output_at, o.wanted ->> 'action' as action,
                    coalesce((o.wanted ->> 'priority')::integer, 0) as priority, coalesce((o.wanted ->> 'delay_s')::integer, 0) as delay_s
                from headrace.correlated(p_version_id, p_ids, 'action') o
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

-- Publishes the events of recorded outputs. Their ids follow from the outputs, so published twice they are one event.
create or replace function headrace.publish_correlated(p_version_id bigint, p_ids bigint[]) returns void
language plpgsql volatile
as $$
declare
    v_version record;
    v_topics  integer[];
begin
    select v.namespace, v.correlator into v_version from headrace.correlator_version v where v.version_id = p_version_id;
    with made as (
        insert into headrace.outbox (topic_id, event_id, type, key, payload, headers, emitted_at, producer)
        select headrace.topic_id(o.wanted ->> 'topic', v_version.namespace), o.id, o.wanted ->> 'event',
            case when coalesce((o.wanted ->> 'keyed')::boolean, true) then o.key end, o.payload,
            jsonb_build_object('cause', o.cause), o.output_at, 'correlator ' || v_version.correlator
        from headrace.correlated(p_version_id, p_ids, 'event') o
        order by o.n
        returning topic_id
    )
    select array_agg(distinct m.topic_id) into v_topics from made m;
    if v_topics is not null then
        perform headrace.wake_topics(v_topics);
    end if;
end
$$;
