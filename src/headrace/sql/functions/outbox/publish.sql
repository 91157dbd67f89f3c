-- Publishes one event in the caller's transaction and returns its id. Raises HR101 for an unknown topic; with p_missing_ok it returns
-- null instead, which leaves the transaction usable.
-- Locks nothing. Index: topic_name_unique. The same event id twice is one event: the sequencer drops the second.
-- Small, ordinary events to a topic that is awake and has neither schemas nor inline rules take one condition and one short statement. 257 bytes with the type
-- twice hold neither a type of 201 bytes nor 129 levels nor 309 digits. PL/pgSQL sets up every expression and every function in it once
-- per transaction, and a publisher often has one event in it: so there are few of them. The id is made by the caller's statement, as
-- the default of a parameter. Everything else takes the second statement, which costs nothing until it is reached.
-- Runs with the caller's rights and hands over to headrace.publish_as_role where these do not suffice: with the owner's rights and
-- a pinned search_path, as the other functions have them, the owner's own publish would take 8 µs longer on PostgreSQL 15. So every
-- call names its schema, and operators have operands of exactly their types: see docs/adr/0080.
create or replace function headrace.publish(
    p_topic      text,
    p_type       text,
    p_payload    jsonb,
    p_key        text default null,
    p_headers    jsonb default null,
    p_event_id   uuid default headrace.uuid_v7(),
    p_emitted_at timestamptz default null,
    p_producer   text default null,
    p_namespace  text default null,
    p_missing_ok boolean default false
) returns uuid
language plpgsql volatile
as $$
begin
    if pg_catalog.has_schema_privilege('headrace_internal', 'usage') and p_headers is null and p_emitted_at is null and p_event_id is not null
            and p_payload is not null
            and pg_catalog.octet_length(pg_catalog.concat(p_type, p_type, p_payload, p_key, p_producer)) <= 257 and p_type ~ '^[A-Za-z_][A-Za-z0-9_.:/-]*$'
            and (p_key is null or p_key <> '') then
        insert into headrace_internal.outbox (topic_id, event_id, type, key, payload, producer)
        select t.topic_id, p_event_id, p_type, p_key, p_payload, p_producer
        from headrace_internal.topic t
        where t.namespace = headrace.current_namespace(p_namespace) and t.topic = p_topic and not t.checks_payloads and not t.asleep
            and not t.has_inline_rules;
        if found then
            return p_event_id;
        end if;
    elsif not pg_catalog.has_schema_privilege('headrace_internal', 'usage') then
        return headrace.publish_as_role(p_topic, p_type, p_payload, p_key, p_headers, p_event_id, p_emitted_at, p_producer,
            p_namespace, p_missing_ok);
    else
        perform headrace.event_within_limits(p_type, p_key, p_payload, p_headers, p_producer);
        perform headrace.time_within_limits(p_emitted_at);
    end if;
    p_event_id := coalesce(p_event_id, headrace.uuid_v7());
    insert into headrace_internal.outbox (topic_id, event_id, type, key, payload, headers, emitted_at, producer)
    select t.topic_id, p_event_id, p_type, p_key, p_payload, coalesce(p_headers, '{}'), coalesce(p_emitted_at, headrace.clock()), p_producer
    from headrace_internal.topic t
    where t.namespace = headrace.current_namespace(p_namespace) and t.topic = p_topic
        and (not t.checks_payloads or headrace_internal.check_payload(t.namespace, p_type, p_payload))
        and (not t.asleep or headrace_internal.wake_sequencer(t.topic_id))
        and (not t.has_inline_rules or headrace_internal.react_inline(t.topic_id, p_event_id, p_type, p_key, p_payload,
            coalesce(p_headers, '{}'), coalesce(p_emitted_at, headrace.clock()), p_producer));
    if found then
        return p_event_id;
    end if;
    if not p_missing_ok then
        perform headrace_internal.raise_unknown_topic(p_topic, p_namespace);
    end if;
    return null;
end
$$;
