-- Fires rules on events: records the firings and puts their actions into the queue, together. What has fired before does not
-- fire again, so its action is not sent either. Returns how many fired. Index: firing_once.
create or replace function headrace.fire(p_topic_id integer, p_hits headrace.rule_hit[]) returns integer
language plpgsql volatile
as $$
declare
    v_namespace text;
    v_actions   jsonb[];
    v_delays    integer[];
begin
    with hit as (
        select h.version_id, h.position, h.event_id, h.event_type, h.key, h.payload, h.emitted_at, h.producer, h.n
        from unnest(p_hits) with ordinality h (version_id, position, event_id, event_type, key, payload, emitted_at, producer, n)
    ), fired as (
        insert into headrace.firing (topic_id, position, event_id, rule_version_id, action)
        select p_topic_id, h.position, h.event_id, h.version_id, v.action
        from hit h
        join headrace.rule_version v on v.version_id = h.version_id
        order by h.n
        on conflict on constraint firing_once do nothing
        returning firing_id, event_id, rule_version_id, action_id
    )
    select t.namespace,
        array_agg(jsonb_build_object(
            'id', f.action_id, 'action', v.action, 'payload', h.payload, 'key', h.key, 'priority', v.priority,
            'namespace', t.namespace, 'event_type', h.event_type, 'emitted_at', h.emitted_at, 'producer', h.producer,
            'cause', jsonb_build_object('kind', 'rule', 'rule', v.rule, 'version', v.version, 'topic', t.topic,
                'position', h.position, 'event_id', h.event_id, 'firing_id', f.firing_id)) order by f.firing_id),
        array_agg(v.delay_s order by f.firing_id)
    into v_namespace, v_actions, v_delays
    from fired f
    join hit h on h.event_id = f.event_id and h.version_id = f.rule_version_id
    join headrace.rule_version v on v.version_id = f.rule_version_id
    join headrace.topic t on t.topic_id = p_topic_id
    group by t.namespace;
    if v_actions is null then
        return 0;
    end if;
    perform headrace.send_actions(v_namespace, v_actions, v_delays);
    return cardinality(v_actions);
end
$$;
