-- The id of the action that a version asks for on an event: it follows from both, so it is the same wherever it is computed.
-- A uuid of version 8, made of their md5. Inlined, for which every part has to be immutable: hence the cast of the version.
create or replace function headrace.action_id(p_event_id uuid, p_version_id bigint) returns uuid
language sql immutable parallel safe
as $$
    select overlay(overlay(md5(p_event_id::text || ':' || p_version_id::text) placing '8' from 13) placing '8' from 17)::uuid
$$;

-- Fires rules on events: records the firings and puts their actions into the queue, together. What has fired before does not
-- fire again, so its action is not sent either. Returns how many fired. Index: firing_once.
create or replace function headrace.fire(p_topic_id integer, p_hits headrace.rule_hit[]) returns integer
language plpgsql volatile
as $$
declare
    v_now       timestamptz := headrace.clock();
    v_namespace text;
    v_actions   jsonb[];
    v_delays    integer[];
begin
    with fired as (
        insert into headrace.firing (topic_id, position, event_id, rule_version_id, action, action_id, fired_at)
        select p_topic_id, h.position, h.event_id, h.version_id, v.action, headrace.action_id(h.event_id, h.version_id), v_now
        from unnest(p_hits) with ordinality h (version_id, position, event_id, type, key, payload, emitted_at, producer, n)
        join headrace.rule_version v on v.version_id = h.version_id
        order by h.n
        on conflict on constraint firing_once do nothing
        returning firing_id, event_id, rule_version_id, action_id
    )
    -- to_jsonb of a row: jsonb_build_object looks up every argument's type anew (10 µs of CPU against 6 to 9 measured).
    select t.namespace, array_agg(to_jsonb(envelope) order by f.firing_id), array_agg(v.delay_s order by f.firing_id)
    into v_namespace, v_actions, v_delays
    from fired f
    join unnest(p_hits) h on h.event_id = f.event_id and h.version_id = f.rule_version_id
    join headrace.rule_version v on v.version_id = f.rule_version_id
    join headrace.topic t on t.topic_id = p_topic_id
    cross join lateral (
        select 'rule' as kind, v.rule, v.version, t.topic, h.position, h.event_id, f.firing_id
    ) cause
    cross join lateral (
        select f.action_id as id, v.action, h.payload, h.key, v.priority, t.namespace, h.event_type, h.emitted_at, h.producer, cause
    ) envelope
    group by t.namespace;
    if v_actions is null then
        return 0;
    end if;
    -- Without delays the queue takes them in one piece.
    perform headrace.send_actions(v_namespace, v_actions, case when 0 = all (v_delays) then null else v_delays end);
    return cardinality(v_actions);
end
$$;

-- Gives inline firings their positions, of events up to p_upto. Indexes: firing_position, log_event_id.
create or replace function headrace.place_firings(p_topic_id integer, p_upto bigint) returns void
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    if exists (select from headrace.firing f where f.topic_id = p_topic_id and f.position is null) then
        update headrace.firing f set position = l.position
        from headrace.log l
        where f.topic_id = p_topic_id and f.position is null
            and l.topic_id = p_topic_id and l.event_id = f.event_id and l.position <= p_upto;
    end if;
end
$$;

-- Fires rules that another engine has matched: version p_version_ids[i] on the event at p_positions[i], in order. In the transaction
-- that also moves the rules' cursor. Returns how many fired. Index: log_position.
create or replace function headrace.fire_rules(p_topic_id integer, p_version_ids bigint[], p_positions bigint[]) returns bigint
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_hits    headrace.rule_hit[];
    v_firings bigint := 0;
begin
    -- In pieces: an array ends at 1 GB, and a payload may have 1 MB.
    for v_hits in
        select array_agg(h.hit order by h.n)
        from (
            select row(h.version_id, h.position, l.event_id, l.type, l.key, l.payload, l.emitted_at, l.producer)::headrace.rule_hit as hit,
                h.n, sum(pg_column_size(l.payload)) over (order by h.n rows unbounded preceding) as bytes
            from unnest(p_version_ids, p_positions) with ordinality h (version_id, position, n)
            cross join lateral (
                select l.event_id, l.type, l.key, l.payload, l.emitted_at, l.producer
                from headrace.log l where l.topic_id = p_topic_id and l.position = h.position limit 1
            ) l
        ) h
        group by h.n / 1000, h.bytes / 16000000
        order by min(h.n)
    loop
        v_firings := v_firings + headrace.fire(p_topic_id, v_hits);
    end loop;
    return v_firings;
end
$$;
