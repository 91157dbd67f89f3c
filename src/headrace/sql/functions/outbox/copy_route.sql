-- What a COPY into the outbox needs: the ids of the topics, in order, the clock in microseconds since 2000 (PostgreSQL's epoch)
-- for events without a time, and the current outbox slot: a default would be evaluated for every row. Rows that arrive after the
-- end of their slot are found all the same.
-- No row if this session may not COPY into the outbox or a topic is unknown; headrace.publish_many is the way then. Checked first,
-- because an error would abort the caller's transaction. Index: topic_name_unique. Locks nothing.
create or replace function headrace.copy_route(p_topics text[], p_namespace text default null)
returns table (topic_id integer, clock_us bigint, slot smallint)
language plpgsql stable
as $$
#variable_conflict use_column
begin
    if not has_schema_privilege('headrace_internal', 'usage')
        or not has_table_privilege('headrace_internal.outbox', 'insert')
        -- A binary COPY takes texts in the client's encoding, whatever its option says; we write UTF-8.
        or current_setting('client_encoding') <> 'UTF8' then
        return;
    end if;
    if exists (
        select from unnest(p_topics) n (topic)
        left join headrace_internal.topic t on t.namespace = headrace.current_namespace(p_namespace) and t.topic = n.topic
        -- What is copied is not checked.
        where t.topic_id is null or t.checks_payloads) then
        return;
    end if;
    return query
        select t.topic_id, (extract(epoch from headrace.clock() - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint,
            headrace_internal.outbox_slot()
        from unnest(p_topics) with ordinality n (topic, place)
        join headrace_internal.topic t on t.namespace = headrace.current_namespace(p_namespace) and t.topic = n.topic
        order by n.place;
end
$$;
