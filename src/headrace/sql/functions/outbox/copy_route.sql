-- Prepares a COPY into the outbox and wakes the sequencer for it. Returns what the COPY needs: the ids of the topics, in order, the
-- clock in microseconds since 2000 (PostgreSQL's epoch) for events without a time, and the current outbox slot: a default would be
-- evaluated for every row. Rows that arrive after the end of their slot are found all the same.
-- No row if this session may not COPY into the outbox, or a topic is unknown, has inline rules or has payloads that are checked by a
-- schema, unless p_schemas_digest says that the library has checked them by the same schemas. headrace.publish_many is the way then. Checked first,
-- because an error would abort the caller's transaction. Index: topic_name_unique.
-- Locks: the slot, row exclusive, as the COPY does. It takes the lock before it reads whether the topics are asleep, so that no
-- sequencer falls asleep unnoticed in between; see headrace_internal.wake_topics, which notifies by the same rule. One statement does
-- the rest: a batch of a hundred events notices each of them.
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
