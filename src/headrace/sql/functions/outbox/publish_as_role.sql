-- headrace.publish for a role of a namespace: checks its level in the statement that publishes, with the owner's rights. The checks
-- of the event are those of headrace.publish; calling it from here would cost a third more. Locks nothing.
-- Indexes: topic_name_unique, namespace_grant_namespace.
create or replace function headrace.publish_as_role(
    p_topic      text,
    p_type       text,
    p_payload    jsonb,
    p_key        text,
    p_headers    jsonb,
    p_event_id   uuid,
    p_emitted_at timestamptz,
    p_producer   text,
    p_namespace  text,
    p_missing_ok boolean default false,
    p_caller     headrace_internal.caller default current_user
) returns uuid
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if ((p_headers is null or p_headers = '{}') and p_emitted_at is null and p_payload is not null
            and octet_length(concat(p_payload, p_key, p_producer)) <= 256 and (p_key = '') is not true
            and octet_length(p_type) <= 200 and p_type ~ '^[A-Za-z_][A-Za-z0-9_.:/-]*$') is not true then
        perform headrace.event_within_limits(p_type, p_key, p_payload, p_headers, p_producer);
        perform headrace.time_within_limits(p_emitted_at);
    end if;
    p_event_id := coalesce(p_event_id, headrace.uuid_v7());
    insert into headrace_internal.outbox (topic_id, event_id, type, key, payload, headers, emitted_at, producer)
    select t.topic_id, p_event_id, p_type, p_key, p_payload, coalesce(p_headers, '{}'), coalesce(p_emitted_at, headrace.clock()),
        p_producer
    from headrace_internal.topic t
    where t.namespace = headrace.current_namespace(p_namespace) and t.topic = p_topic
        and exists (
            select from headrace_internal.namespace_grant g
            where g.namespace = t.namespace and t.topic not like 'headrace.%' and g.level in ('publish', 'admin') and pg_has_role(p_caller, g.role, 'usage'))
        and (not t.checks_payloads or headrace_internal.check_payload(t.namespace, p_type, p_payload))
        and (not t.asleep or headrace_internal.wake_sequencer(t.topic_id))
        and (not t.has_inline_rules or headrace_internal.react_inline(t.topic_id, p_event_id, p_type, p_key, p_payload,
            coalesce(p_headers, '{}'), coalesce(p_emitted_at, headrace.clock()), p_producer));
    if not found then
        -- Raises where the level is missing; a role above namespaces has it without a grant.
        p_namespace := headrace_internal.authorize(p_caller, 'publish', p_namespace, p_topic);
        perform headrace_internal.refuse_reserved_topic(p_topic, p_caller);
        return headrace.publish(p_topic, p_type, p_payload, p_key, p_headers, p_event_id, p_emitted_at, p_producer, p_namespace,
            p_missing_ok);
    end if;
    return p_event_id;
end
$$;
