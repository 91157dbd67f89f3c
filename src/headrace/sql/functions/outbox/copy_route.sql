-- Prepares a COPY into the outbox and wakes the sequencer for it. Returns what the COPY needs: the ids of the topics, in order, the
-- clock in microseconds since 2000 (PostgreSQL's epoch) for events without a time, and the current outbox slot: a default would be
-- evaluated for every row. Rows that arrive after the end of their slot are found all the same.
-- No row if this session may not COPY into the outbox, or a topic is unknown or has payloads that are checked by a schema;
-- headrace.publish_many is the way then. Checked first,
-- because an error would abort the caller's transaction. Index: topic_name_unique.
-- Locks: the slot, row exclusive, as the COPY does. It takes the lock before it reads whether the topics are asleep, so that no
-- sequencer falls asleep unnoticed in between; see headrace_internal.wake_topics.
create or replace function headrace.copy_route(p_topics text[], p_namespace text default null)
returns table (topic_id integer, clock_us bigint, slot smallint)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    v_namespace text := headrace.current_namespace(p_namespace);
    v_topic_ids integer[];
    v_slot      smallint;
begin
    if not has_schema_privilege('headrace_internal', 'usage')
        or not has_table_privilege('headrace_internal.outbox', 'insert')
        -- A binary COPY takes texts in the client's encoding, whatever its option says; we write UTF-8.
        or current_setting('client_encoding') <> 'UTF8' then
        return;
    end if;
    v_topic_ids := array(
        select t.topic_id
        from unnest(p_topics) with ordinality n (topic, place)
        join headrace_internal.topic t on t.namespace = v_namespace and t.topic = n.topic and not t.checks_payloads
        order by n.place);
    if cardinality(v_topic_ids) < cardinality(p_topics) then
        return;
    end if;
    v_slot := headrace_internal.outbox_slot();
    execute format('lock table headrace_internal.%I in row exclusive mode', 'outbox_' || v_slot);
    perform headrace_internal.wake_topics(v_topic_ids);
    return query
        select t.topic_id, (extract(epoch from headrace.clock() - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint, v_slot
        from unnest(v_topic_ids) with ordinality t (topic_id, place)
        order by t.place;
end
$$;
