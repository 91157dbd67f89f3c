-- The id of the action that a version asks for on an event: it follows from both, so it is the same wherever it is computed.
-- A uuid of version 8, made of their md5.
create or replace function headrace.action_id(p_event_id uuid, p_version_id bigint) returns uuid
language sql immutable parallel safe
as $$
    select overlay(overlay(md5(p_event_id::text || ':' || p_version_id) placing '8' from 13) placing '8' from 17)::uuid
$$;

-- Records firings and returns those that are new, in the order given. p_alone: the caller holds the rules' cursor of the topic and
-- nobody else fires its versions, so a look is enough; "on conflict" costs an insert twice its time (measured).
-- Index: firing_once.
create or replace function headrace.record_firings(p_topic_id integer, p_hits headrace.rule_hit[], p_alone boolean)
returns table (firing_id bigint, event_id uuid, version_id bigint, action_id uuid)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_now timestamptz := headrace.clock();
begin
    if p_alone then
        return query
        insert into headrace.firing as f (topic_id, position, event_id, rule_version_id, action, action_id, fired_at)
        select p_topic_id, h.position, h.event_id, h.version_id, v.action, headrace.action_id(h.event_id, h.version_id), v_now
        from unnest(p_hits) with ordinality h (version_id, position, event_id, type, key, payload, emitted_at, producer, n)
        join headrace.rule_version v on v.version_id = h.version_id
        where not exists (select from headrace.firing o where o.event_id = h.event_id and o.rule_version_id = h.version_id)
        order by h.n
        returning f.firing_id, f.event_id, f.rule_version_id, f.action_id;
    else
        return query
        insert into headrace.firing as f (topic_id, position, event_id, rule_version_id, action, action_id, fired_at)
        select p_topic_id, h.position, h.event_id, h.version_id, v.action, headrace.action_id(h.event_id, h.version_id), v_now
        from unnest(p_hits) with ordinality h (version_id, position, event_id, type, key, payload, emitted_at, producer, n)
        join headrace.rule_version v on v.version_id = h.version_id
        order by h.n
        on conflict on constraint firing_once do nothing
        returning f.firing_id, f.event_id, f.rule_version_id, f.action_id;
    end if;
end
$$;

-- Fires rules on events: records the firings and puts their actions into the queue, together. What has fired before does not
-- fire again, so its action is not sent either. Returns how many fired.
create or replace function headrace.fire(p_topic_id integer, p_hits headrace.rule_hit[], p_alone boolean) returns integer
language plpgsql volatile
as $$
declare
    v_namespace text;
    v_actions   jsonb[];
    v_delays    integer[];
begin
    -- to_jsonb of a row: jsonb_build_object looks up every argument's type anew, and takes four times as long (measured).
    select t.namespace, array_agg(to_jsonb(envelope) order by f.firing_id), array_agg(v.delay_s order by f.firing_id)
    into v_namespace, v_actions, v_delays
    from headrace.record_firings(p_topic_id, p_hits, p_alone) f
    join unnest(p_hits) h on h.event_id = f.event_id and h.version_id = f.version_id
    join headrace.rule_version v on v.version_id = f.version_id
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
    perform headrace.send_actions(v_namespace, v_actions, v_delays);
    return cardinality(v_actions);
end
$$;
