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
        select headrace.topic_id(o.wanted ->> 'topic', v_version.namespace), o.id, o.wanted ->> 'event',
            case when coalesce((o.wanted ->> 'keyed')::boolean, true) then o.key end, o.payload,
            jsonb_build_object('cause', o.cause) || coalesce(o.trace, '{}'), o.output_at, 'correlator ' || v_version.correlator
        from headrace_internal.correlated(p_version_id, p_ids, 'event') o
        order by o.n
        returning topic_id
    )
    select array_agg(distinct m.topic_id) into v_topics from published m;
    if v_topics is not null then
        perform headrace_internal.wake_topics(v_topics);
    end if;
end
$$;
