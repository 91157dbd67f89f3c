-- Evaluates the inline rules of a topic on an event that is being published and fires those that are true, in the publisher's
-- transaction. Publishers call it in the statement that inserts the event, and only where headrace_internal.topic says that the topic
-- has inline rules. Always true.
-- An evaluation that fails is undone alone (it only reads), and its event is evaluated after the log: the publisher goes on.
-- Runs as the owner, since a publisher may publish but not fire. Its cost lets the planner evaluate every other condition before it.
-- Calls: the function that headrace_internal.write_inline has created for the topic; headrace_internal.fire. Locks nothing.
create or replace function headrace_internal.react_inline(
    p_topic_id   integer,
    p_event_id   uuid,
    p_type       text,
    p_key        text,
    p_payload    jsonb,
    p_headers    jsonb,
    p_emitted_at timestamptz,
    p_producer   text
) returns boolean
language plpgsql volatile
security definer
cost 1000000
set search_path = pg_catalog, pg_temp
as $$
declare
    v_versions bigint[];
begin
    begin
        execute format('select headrace_internal.%I($1, $2, $3, $4, $5, $6, $7)', 'match_inline_' || p_topic_id) into v_versions
        using p_event_id, p_type, p_key, p_payload, p_headers, p_emitted_at, p_producer;
    exception
        when others then
            if not headrace_internal.is_program_error(sqlstate) then
                raise;
            end if;
            insert into headrace_internal.inline_failure (topic_id, event_id, error) values (p_topic_id, p_event_id, sqlerrm);
    end;
    if v_versions is not null then
        perform headrace_internal.fire(p_topic_id, array(
            select row(v.version_id, null, p_event_id, p_type, p_key, p_payload, p_emitted_at, p_producer,
                headrace_internal.trace_headers(p_headers))::headrace_internal.rule_hit
            from unnest(v_versions) with ordinality v (version_id, n) order by v.n));
    end if;
    return true;
end
$$;
