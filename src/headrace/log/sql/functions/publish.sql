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

-- Writes events that are checked into the outbox, in the order of the array, and wakes the sequencers of their topics. For all that
-- publishes in batches; a single event is an INSERT into a view such as headrace.event_0. Ids of the rows are assigned here. Each
-- branch is a statement of its own, because a statement locks every table that it names. Locks nothing.
-- Calls: outbox_slot, wake_topics.
create or replace function headrace_internal.write_events(p_events headrace_internal.outbox[]) returns void
language plpgsql volatile
as $$
begin
    if p_events = '{}' then
        return;
    end if;
    case headrace.outbox_slot()
    when 0 then
        insert into headrace_internal.outbox_0 (emitted_at, topic_id, event_id, type, key, payload, headers, producer)
        select e.emitted_at, e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.producer from unnest(p_events) e;
    when 1 then
        insert into headrace_internal.outbox_1 (emitted_at, topic_id, event_id, type, key, payload, headers, producer)
        select e.emitted_at, e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.producer from unnest(p_events) e;
    when 2 then
        insert into headrace_internal.outbox_2 (emitted_at, topic_id, event_id, type, key, payload, headers, producer)
        select e.emitted_at, e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.producer from unnest(p_events) e;
    end case;
    perform headrace_internal.wake_topics(array(select distinct e.topic_id from unnest(p_events) e));
end
$$;

-- Decides on an event that an INSERT into headrace.event_0, event_1 or event_2 cannot take by its own condition: that of a tenant's role,
-- of a topic that has schemas or inline rules, or does not exist, and an event that is not small and ordinary. p_topic_id is what
-- the INSERT has found, null for an unknown topic: HR101, or false with p_missing_ok. p_is_checked: the library has checked the limits,
-- which is believed to who may write to the outbox anyway; p_schemas_digest: by which schemas it has checked the payload.
-- The topic's row is read again: the INSERT does not tell it to a function whose parameters a user writes. The level of a tenant's role is
-- checked in the same statement, since the functions that check it take twice as long.
-- Locks nothing. Indexes: topic_pkey, namespace_grant_namespace.
-- Calls: event_within_limits, time_within_limits, current_namespace, refuse_reserved_topic, raise_unknown_topic, check_payload, wake_sequencer, react_inline.
create or replace function headrace_internal.admit_event(
    p_topic_id       integer,
    p_namespace      text,
    p_topic          text,
    p_event_id       uuid,
    p_type           text,
    p_key            text,
    p_payload        jsonb,
    p_headers        jsonb,
    p_emitted_at     timestamptz,
    p_producer       text,
    p_schemas_digest bigint,
    p_is_checked     boolean,
    p_missing_ok     boolean,
    p_caller         headrace_internal.caller default current_user
) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text;
    v_topic     record;
begin
    if (p_is_checked and has_table_privilege(p_caller, 'headrace_internal.outbox', 'insert')
            or p_payload is not null and p_headers is null and p_emitted_at is null
            and octet_length(concat(p_type, p_type, p_payload, p_key, p_producer)) <= 257 and p_type ~ '^[A-Za-z_][A-Za-z0-9_.:/-]*$'
            and (p_key = '') is not true) is not true then
        perform headrace.event_within_limits(p_type, p_key, p_payload, p_headers, p_producer);
        perform headrace.time_within_limits(p_emitted_at);
    end if;
    select t.namespace, t.asleep, t.checks_payloads, t.schemas_digest, t.has_inline_rules into v_topic
    from headrace_internal.topic t
    where t.topic_id = p_topic_id and t.namespace = headrace.current_namespace(p_namespace) and t.topic not like 'headrace.%'
        and exists (
            select from headrace_internal.namespace_grant g
            where g.namespace = t.namespace and g.level in ('publish', 'admin') and pg_has_role(p_caller, g.role, 'usage'));
    if not found then
        -- Raises where the level is missing; a role above namespaces has it without a grant.
        v_namespace := headrace_internal.authorize(p_caller, 'publish', p_namespace, p_topic);
        perform headrace_internal.refuse_reserved_topic(p_topic, p_caller);
        select t.namespace, t.asleep, t.checks_payloads, t.schemas_digest, t.has_inline_rules into v_topic
        from headrace_internal.topic t where t.topic_id = p_topic_id and t.namespace = v_namespace;
        if not found and p_missing_ok is not true then
            perform headrace_internal.raise_unknown_topic(p_topic, v_namespace);
        elsif not found then
            return false;
        end if;
    end if;
    if not (v_topic.checks_payloads or v_topic.asleep or v_topic.has_inline_rules) then
        return true;
    end if;
    if v_topic.checks_payloads and v_topic.schemas_digest is distinct from p_schemas_digest then
        perform headrace_internal.check_payload(v_topic.namespace, p_type, p_payload);
    end if;
    if v_topic.asleep then
        perform headrace_internal.wake_sequencer(p_topic_id);
    end if;
    if v_topic.has_inline_rules then
        perform headrace_internal.react_inline(p_topic_id, p_event_id, p_type, p_key, p_payload, coalesce(p_headers, '{}'),
            coalesce(p_emitted_at, headrace.clock()), p_producer);
    end if;
    return true;
end
$$;

-- Publishes one event in the caller's transaction and returns its id. Raises HR101 for an unknown topic; with p_missing_ok it returns
-- null instead, which leaves the transaction usable. The same event id twice is one event: the sequencer drops the second.
-- Small, ordinary events of a role that may write to the outbox, to a topic with neither schemas nor inline rules, take one statement. 257 bytes
-- with the type twice hold neither a type of 201 bytes nor 129 levels nor 309 digits. Everything else goes by the view headrace.event_0, event_1 or event_2,
-- which checks everything, also what the role may do. Only the branch that is taken is planned, and locks its table of the outbox.
-- PL/pgSQL sets up every expression once per transaction, 3 to 4 µs with 32 clients, and a publisher often has one event in it: so there are few of
-- them. The id and p_slot, which table it is, are defaults, because the caller's statement evaluates these; leave p_slot out. It is null where the role
-- may not write to the outbox. Runs with the caller's rights; a pinned search_path costs 8 µs on PostgreSQL 15. So every call names
-- its schema, and operators have operands of exactly their types: see docs/adr/0080. Locks nothing. Index: topic_name_unique.
-- Calls: current_namespace, wake_sequencer, uuid_v7, outbox_slot.
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
    p_missing_ok boolean default false,
    p_slot       integer default case when pg_catalog.has_schema_privilege('headrace_internal', 'usage') then headrace.outbox_slot() end
) returns uuid
language plpgsql volatile
as $$
begin
    if p_slot = 0 then
        insert into headrace_internal.outbox_0 (topic_id, event_id, type, key, payload, producer)
        select t.topic_id, p_event_id, p_type, p_key, p_payload, p_producer
        from headrace_internal.topic t
        where t.namespace = headrace.current_namespace(p_namespace) and t.topic = p_topic
            and case when t.checks_payloads or t.has_inline_rules then false
                when p_payload is not null and p_headers is null and p_emitted_at is null and p_event_id is not null
                    and pg_catalog.octet_length(pg_catalog.concat(p_type, p_type, p_payload, p_key, p_producer)) <= 257
                    and p_type ~ '^[A-Za-z_][A-Za-z0-9_.:/-]*$' and (p_key is null or p_key <> '')
                then not t.asleep or headrace_internal.wake_sequencer(t.topic_id) end;
    elsif p_slot = 1 then
        insert into headrace_internal.outbox_1 (topic_id, event_id, type, key, payload, producer)
        select t.topic_id, p_event_id, p_type, p_key, p_payload, p_producer
        from headrace_internal.topic t
        where t.namespace = headrace.current_namespace(p_namespace) and t.topic = p_topic
            and case when t.checks_payloads or t.has_inline_rules then false
                when p_payload is not null and p_headers is null and p_emitted_at is null and p_event_id is not null
                    and pg_catalog.octet_length(pg_catalog.concat(p_type, p_type, p_payload, p_key, p_producer)) <= 257
                    and p_type ~ '^[A-Za-z_][A-Za-z0-9_.:/-]*$' and (p_key is null or p_key <> '')
                then not t.asleep or headrace_internal.wake_sequencer(t.topic_id) end;
    elsif p_slot = 2 then
        insert into headrace_internal.outbox_2 (topic_id, event_id, type, key, payload, producer)
        select t.topic_id, p_event_id, p_type, p_key, p_payload, p_producer
        from headrace_internal.topic t
        where t.namespace = headrace.current_namespace(p_namespace) and t.topic = p_topic
            and case when t.checks_payloads or t.has_inline_rules then false
                when p_payload is not null and p_headers is null and p_emitted_at is null and p_event_id is not null
                    and pg_catalog.octet_length(pg_catalog.concat(p_type, p_type, p_payload, p_key, p_producer)) <= 257
                    and p_type ~ '^[A-Za-z_][A-Za-z0-9_.:/-]*$' and (p_key is null or p_key <> '')
                then not t.asleep or headrace_internal.wake_sequencer(t.topic_id) end;
    end if;
    if found then
        return p_event_id;
    end if;
    p_event_id := coalesce(p_event_id, headrace.uuid_v7());
    case headrace.outbox_slot()
    when 0 then
        insert into headrace.event_0 (topic, type, payload, key, headers, event_id, emitted_at, producer, namespace, missing_ok)
        values (p_topic, p_type, p_payload, p_key, p_headers, p_event_id, p_emitted_at, p_producer, p_namespace, p_missing_ok);
    when 1 then
        insert into headrace.event_1 (topic, type, payload, key, headers, event_id, emitted_at, producer, namespace, missing_ok)
        values (p_topic, p_type, p_payload, p_key, p_headers, p_event_id, p_emitted_at, p_producer, p_namespace, p_missing_ok);
    when 2 then
        insert into headrace.event_2 (topic, type, payload, key, headers, event_id, emitted_at, producer, namespace, missing_ok)
        values (p_topic, p_type, p_payload, p_key, p_headers, p_event_id, p_emitted_at, p_producer, p_namespace, p_missing_ok);
    end case;
    return case when found then p_event_id end;
end
$$;

-- Publishes an array of events in the caller's transaction, in order, and returns their ids in the same order.
-- An event is an object: topic and type, optionally payload, key, headers, id, emitted_at, producer.
-- All or nothing: an invalid event raises an error, and none is written. Raises HR101 for an unknown topic; with p_missing_ok it
-- returns no row instead, which leaves the transaction usable. Index: topic_name_unique. Locks nothing.
-- Calls: raise_unknown_topic, refuse_reserved_topic, uuid_v7, event_within_limits, time_within_limits, check_payload, react_inline,
-- write_events.
create or replace function headrace.publish_many(
    p_events jsonb, p_namespace text default null, p_missing_ok boolean default false, p_caller headrace_internal.caller default current_user
) returns setof uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'publish', p_namespace, p_events -> 0 ->> 'topic');
    v_events    headrace_internal.outbox[];
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
    v_events := array(
        select row(null, e.emitted_at, e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.producer)::headrace_internal.outbox
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
            order by e.place) e
        where not e.has_inline_rules or headrace_internal.react_inline(
                e.topic_id, e.event_id, e.type, e.key, e.payload, e.headers, e.emitted_at, e.producer));
    perform headrace_internal.write_events(v_events);
    return query select e.event_id from unnest(v_events) e;
end
$$;

-- Prepares a COPY into the outbox and wakes the sequencer for it. Returns what the COPY needs: the ids of the topics, in order, the
-- clock in microseconds since 2000 (PostgreSQL's epoch) for events without a time, because a default would be
-- evaluated for every row, and which table of the outbox to write to. Rows that arrive after its turn are found all the same.
-- No row if this session may not COPY into the outbox, or a topic is unknown, has inline rules or has payloads that are checked by a
-- schema, unless p_schemas_digest says that the library has checked them by the same schemas. headrace.publish_many is the way then. Checked first,
-- because an error would abort the caller's transaction. Index: topic_name_unique.
-- Locks: that table, row exclusive, as the COPY does. It takes the lock before it reads whether the topics are asleep, so that no
-- sequencer falls asleep unnoticed in between; see headrace_internal.wake_topics, which notifies by the same rule. One statement does
-- the rest: a batch of a hundred events notices each of them.
-- Calls: outbox_slot, current_namespace, wake_sequencer.
create or replace function headrace.copy_route(p_topics text[], p_namespace text default null, p_schemas_digest bigint default null)
returns table (topic_id integer, clock_us bigint, slot integer)
language plpgsql volatile
as $$
declare
    v_slot integer;
begin
    if not pg_catalog.has_schema_privilege('headrace_internal', 'usage')
        or not pg_catalog.has_table_privilege('headrace_internal.outbox', 'insert')
        -- A binary COPY takes texts in the client's encoding, whatever its option says; we write UTF-8.
        or pg_catalog.current_setting('client_encoding') <> 'UTF8' then
        return;
    end if;
    v_slot := headrace.outbox_slot();
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
