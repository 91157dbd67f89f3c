-- Publishes the events of recorded outputs. Their ids follow from the outputs, so an event that is published twice is one event.
create or replace function headrace_internal.publish_correlated(p_version_id bigint, p_ids bigint[]) returns void
language plpgsql volatile
as $$
declare
    v_version record;
    v_topics  integer[];
begin
    select v.namespace, v.correlator into v_version from headrace_internal.correlator_version v where v.version_id = p_version_id;
    with published as (
        insert into headrace_internal.outbox (topic_id, event_id, type, key, payload, headers, emitted_at, producer)
        select e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.emitted_at, e.producer
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
                e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.emitted_at, e.producer)
        returning topic_id
    )
    select array_agg(distinct m.topic_id) into v_topics from published m;
    if v_topics is not null then
        perform headrace_internal.wake_topics(v_topics);
    end if;
end
$$;
