-- What a COPY into the outbox needs to know: the id of every topic named, in their order, the clock in microseconds
-- since 2000 (PostgreSQL's own count) for events without a time of their own, and the outbox slot of now: a default would be
-- evaluated anew for every row. Rows that come when their slot is over are found there all the same.
-- No row at all when this session may not COPY there; headrace.publish_many is the way then. Asked beforehand, because an
-- error would abort the caller's transaction. Raises HR101 for an unknown topic. Index: topic_name_unique. Locks nothing.
create or replace function headrace_internal.copy_route(p_topics text[], p_namespace text default null)
returns table (topic_id integer, clock_us bigint, slot smallint)
language plpgsql stable
as $$
#variable_conflict use_column
declare
    v_unknown text;
begin
    if not has_table_privilege('headrace_internal.outbox', 'insert')
        or not has_table_privilege('headrace.topic', 'select')
        or not has_sequence_privilege('headrace_internal.outbox_id_seq', 'usage')
        or row_security_active('headrace_internal.outbox')
        -- A binary COPY takes texts in the client's encoding, whatever its option says; we write UTF-8.
        or current_setting('client_encoding') <> 'UTF8' then
        return;
    end if;
    select n.topic into v_unknown
    from unnest(p_topics) n (topic)
    left join headrace.topic t on t.namespace = headrace.current_namespace(p_namespace) and t.topic = n.topic
    where t.topic_id is null
    limit 1;
    if found then
        perform headrace_internal.raise_unknown_topic(v_unknown, p_namespace);
    end if;
    return query
        select t.topic_id, (extract(epoch from headrace.clock() - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint,
            headrace_internal.outbox_slot()
        from unnest(p_topics) with ordinality n (topic, place)
        join headrace.topic t on t.namespace = headrace.current_namespace(p_namespace) and t.topic = n.topic
        order by n.place;
end
$$;
