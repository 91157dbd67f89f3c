-- Notifies the sleeping sequencers at commit that a topic has an event, unless one of it has waited for long: its publisher has notified
-- them. Always true. A NOTIFY makes the commits of the whole cluster wait for each other; where no sequencer runs, topics stay asleep,
-- and without this limit every publisher would send one. For long means that ten events were published since, in any topic: a sequencer
-- that finds so many in a step polls for a moment, because their publishers may not have notified it, and commit later.
-- The oldest waiting event decides. One of this transaction does not count: it was written before its topic was found asleep, or it
-- goes with the savepoint that has notified. Above read committed, an older snapshot may show an event that is in the log by now.
-- Where transactions may be prepared it does not notify at all, see headrace_internal.may_notify: the sequencer polls there.
-- Locks nothing: whoever publishes, or holds any lock, delays no publisher of another topic. Index: outbox_order.
-- Calls: may_notify, transaction_status.
create or replace function headrace_internal.wake_sequencer(p_topic_id integer) returns boolean
language plpgsql volatile
as $$
declare
    v_oldest record;
begin
    if headrace_internal.may_notify() then
        select o.xmin as xid, o.id into v_oldest
        from headrace_internal.outbox o where o.topic_id = p_topic_id order by o.topic_id, o.id limit 1;
        if v_oldest.id is null or v_oldest.id + 10 > pg_catalog.pg_sequence_last_value('headrace_internal.outbox_id_seq')
            or headrace_internal.transaction_status(v_oldest.xid) is distinct from 'committed'
            or pg_catalog.current_setting('transaction_isolation') <> 'read committed' then
            perform pg_catalog.pg_notify('headrace_outbox', '');
        end if;
    end if;
    return true;
end
$$;

-- Notifies the sequencers, once, of those of these topics that are asleep. Call it after the rows are written, never before: the lock on
-- the written outbox slot keeps a sequencer from falling asleep unnoticed.
-- An older snapshot may still show the topic awake, so above read committed it always notifies. Index: topic_pkey. Locks nothing.
-- Calls: wake_sequencer.
create or replace function headrace_internal.wake_topics(p_topic_ids integer[]) returns boolean
language plpgsql volatile
as $$
begin
    perform headrace_internal.wake_sequencer(t.topic_id)
    from headrace_internal.topic t
    where t.topic_id = any (p_topic_ids) and (t.asleep or current_setting('transaction_isolation') <> 'read committed');
    return found;
end
$$;

-- headrace.publish for a role of a namespace: checks its level in the statement that publishes, with the owner's rights. The checks
-- of the event are those of headrace.publish; calling it from here would cost a third more. Locks nothing.
-- Indexes: topic_name_unique, namespace_grant_namespace.
-- Calls: event_within_limits, time_within_limits, uuid_v7, current_namespace, check_payload, wake_sequencer, react_inline,
-- refuse_reserved_topic, publish.
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
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
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
-- Calls: current_namespace, publish_as_role, event_within_limits, time_within_limits, uuid_v7, check_payload, wake_sequencer,
-- react_inline, raise_unknown_topic.
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

-- Publishes an array of events in the caller's transaction, in order, and returns their ids in the same order.
-- An event is an object: topic and type, optionally payload, key, headers, id, emitted_at, producer.
-- All or nothing: an invalid event raises an error, and none is written. Raises HR101 for an unknown topic; with p_missing_ok it
-- returns no row instead, which leaves the transaction usable. Index: topic_name_unique. Locks nothing.
-- Calls: raise_unknown_topic, refuse_reserved_topic, uuid_v7, event_within_limits, time_within_limits, check_payload, react_inline,
-- wake_topics.
create or replace function headrace.publish_many(
    p_events jsonb, p_namespace text default null, p_missing_ok boolean default false, p_caller headrace_internal.caller default current_user
) returns setof uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'publish', p_namespace, p_events -> 0 ->> 'topic');
    v_topics    integer[];
    v_bad       text;
begin
    if jsonb_typeof(p_events) is distinct from 'array' then
        raise exception 'events are %, not an array', coalesce(jsonb_typeof(p_events), 'missing')
            using errcode = 'HR300', hint = 'Pass a JSON array of objects with topic, type and payload.';
    end if;
    select case when m.member is null then format('an event is %s, not an object', jsonb_typeof(e.event))
        else format('an event has an unknown member "%s"', m.member) end into v_bad
    from jsonb_array_elements(p_events) e (event)
    left join lateral jsonb_object_keys(case when jsonb_typeof(e.event) = 'object' then e.event else '{}' end) m (member) on true
    where jsonb_typeof(e.event) <> 'object'
        or m.member not in ('topic', 'type', 'payload', 'key', 'headers', 'id', 'emitted_at', 'producer')
    limit 1;
    if found then
        raise exception '%', v_bad
            using errcode = 'HR300', hint = 'Its members are topic, type, payload, key, headers, id, emitted_at and producer.';
    end if;
    select coalesce(e.event ->> 'topic', '') into v_bad
    from jsonb_array_elements(p_events) e (event)
    left join headrace_internal.topic t on t.namespace = v_namespace and t.topic = e.event ->> 'topic'
    where t.topic_id is null
    limit 1;
    if found and p_missing_ok then
        return;
    elsif found then
        perform headrace_internal.raise_unknown_topic(v_bad, v_namespace);
    end if;
    perform headrace_internal.refuse_reserved_topic(e.event ->> 'topic', p_caller)
    from jsonb_array_elements(p_events) e (event) where e.event ->> 'topic' like 'headrace.%';
    return query
        insert into headrace_internal.outbox (topic_id, event_id, type, key, payload, headers, emitted_at, producer)
        select e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.emitted_at, e.producer
        from (
            select t.topic_id, t.has_inline_rules, coalesce((e.event ->> 'id')::uuid, headrace.uuid_v7()) as event_id,
                e.event ->> 'type' as type, e.event ->> 'key' as key, coalesce(e.event -> 'payload', 'null') as payload,
                coalesce(nullif(e.event -> 'headers', 'null'), '{}') as headers,
                coalesce((e.event ->> 'emitted_at')::timestamptz, headrace.clock()) as emitted_at, e.event ->> 'producer' as producer
            from jsonb_array_elements(p_events) with ordinality e (event, place)
            join headrace_internal.topic t on t.namespace = v_namespace and t.topic = e.event ->> 'topic'
            where headrace.event_within_limits(e.event ->> 'type', e.event ->> 'key', coalesce(e.event -> 'payload', 'null'),
                coalesce(nullif(e.event -> 'headers', 'null'), '{}'), e.event ->> 'producer')
                and headrace.time_within_limits((e.event ->> 'emitted_at')::timestamptz)
                and (not t.checks_payloads or headrace_internal.check_payload(t.namespace, e.event ->> 'type', coalesce(e.event -> 'payload', 'null')))
            -- The outbox numbers rows in the order of the insert, and that number is the producer's order.
            order by e.place) e
        where not e.has_inline_rules or headrace_internal.react_inline(
                e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.emitted_at, e.producer)
        returning event_id;
    select array_agg(distinct t.topic_id) into v_topics
    from jsonb_array_elements(p_events) e (event)
    join headrace_internal.topic t on t.namespace = v_namespace and t.topic = e.event ->> 'topic';
    perform headrace_internal.wake_topics(v_topics);
end
$$;

-- Prepares a COPY into the outbox and wakes the sequencer for it. Returns what the COPY needs: the ids of the topics, in order, the
-- clock in microseconds since 2000 (PostgreSQL's epoch) for events without a time, and the current outbox slot: a default would be
-- evaluated for every row. Rows that arrive after the end of their slot are found all the same.
-- No row if this session may not COPY into the outbox, or a topic is unknown, has inline rules or has payloads that are checked by a
-- schema, unless p_schemas_digest says that the library has checked them by the same schemas. headrace.publish_many is the way then. Checked first,
-- because an error would abort the caller's transaction. Index: topic_name_unique.
-- Locks: the slot, row exclusive, as the COPY does. It takes the lock before it reads whether the topics are asleep, so that no
-- sequencer falls asleep unnoticed in between; see headrace_internal.wake_topics, which notifies by the same rule. One statement does
-- the rest: a batch of a hundred events notices each of them.
-- Calls: outbox_slot, current_namespace, wake_sequencer.
create or replace function headrace.copy_route(p_topics text[], p_namespace text default null, p_schemas_digest bigint default null)
returns table (topic_id integer, clock_us bigint, slot smallint)
language plpgsql volatile
as $$
declare
    v_slot smallint;
begin
    if not pg_catalog.has_schema_privilege('headrace_internal', 'usage')
        or not pg_catalog.has_table_privilege('headrace_internal.outbox', 'insert')
        -- A binary COPY takes texts in the client's encoding, whatever its option says; we write UTF-8.
        or pg_catalog.current_setting('client_encoding') <> 'UTF8' then
        return;
    end if;
    v_slot := headrace_internal.outbox_slot();
    execute pg_catalog.format('lock table headrace_internal.%I in row exclusive mode', 'outbox_' || v_slot::text);
    return query
        select r.topic_id, (extract(epoch from headrace.clock() - timestamptz '2000-01-01 00:00:00+00') * 1000000::numeric)::bigint, v_slot
        from (
            select t.topic_id, n.place, pg_catalog.count(*) over () as topics,
                t.asleep or pg_catalog.current_setting('transaction_isolation') <> 'read committed' as wakes
            from pg_catalog.unnest(p_topics) with ordinality n (topic, place)
            join headrace_internal.topic t
                on t.namespace = headrace.current_namespace(p_namespace) and t.topic = n.topic
                    and (not t.checks_payloads or t.schemas_digest = p_schemas_digest) and not t.has_inline_rules) r
        where r.topics = pg_catalog.cardinality(p_topics) and (not r.wakes or headrace_internal.wake_sequencer(r.topic_id))
        order by r.place;
end
$$;
