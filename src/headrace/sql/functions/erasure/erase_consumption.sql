-- Erases what consumers of a topic keep of these events: dead letters, which are discarded when whole payloads are erased, and the error
-- texts of cursors and inline rules, which may quote a value. Locks: the rows. Index: dead_letter_once.
create or replace function headrace_internal.erase_consumption(
    p_erasure headrace_internal.erasure, p_topic_id integer, p_event_ids uuid[], p_is_output boolean
) returns void
language plpgsql volatile
as $$
declare
    v_rows bigint;
begin
    update headrace_internal.dead_letter d
    set payload = headrace_internal.erased_payload(d.payload, p_erasure.fields, p_is_output),
        edited_payload = case when d.edited_payload is not null
            then headrace_internal.erased_payload(d.edited_payload, p_erasure.fields, p_is_output) end,
        headers = headrace_internal.erased_headers(d.headers, p_erasure.fields, p_erasure.erasure_id),
        key = headrace_internal.erased_key(d.key, p_erasure.new_key, p_is_output),
        error = case when d.error is not null then '(erased)' end, traceback = null,
        state = case when p_erasure.fields is null and d.state in ('dead', 'behind', 'redrive') then 'discarded' else d.state end,
        ended_at = case when p_erasure.fields is null then coalesce(d.ended_at, headrace.clock()) else d.ended_at end
    from headrace_internal.consumer c
    where c.topic_id = p_topic_id and d.consumer_id = c.consumer_id and d.event_id = any (p_event_ids);
    get diagnostics v_rows = row_count;
    perform headrace_internal.count_erased(p_erasure.erasure_id, 'dead letters of events', v_rows);
    -- Which event a cursor failed on is not recorded: every error text of the topic goes.
    update headrace_internal.cursor u set error = '(erased)', traceback = null
    from headrace_internal.consumer c
    where c.topic_id = p_topic_id and u.consumer_id = c.consumer_id and u.error <> '(erased)';
    update headrace_internal.inline_failure f set error = '(erased)' where f.topic_id = p_topic_id and f.event_id = any (p_event_ids);
end
$$;
