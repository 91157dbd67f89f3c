-- Publishes rows of a captured table as events; the trigger headrace.capture_rows calls it. Payload: the row; that of an update has
-- also "_old", the former values of the columns it changed. An update that changed no captured column publishes nothing.
-- A table that is not captured any more publishes nothing. Locks nothing. Index: capture_pkey.
create or replace function headrace.publish_rows(
    p_topic_id  integer,
    p_table     regclass,
    p_operation text,
    p_new_rows  jsonb[],
    p_old_rows  jsonb[],
    p_caller    headrace_internal.caller default current_user
) returns void
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_capture headrace_internal.capture;
    v_headers jsonb;
    v_rows    bigint;
    v_topic   record;
begin
    select c.* into v_capture from headrace_internal.capture c where c.captured = p_table and c.topic_id = p_topic_id;
    if not found then
        return;
    end if;
    perform headrace_internal.authorize_id(p_caller, 'publish', 'topic', p_topic_id);
    select jsonb_build_object('table', format('%I.%I', n.nspname, c.relname), 'operation', p_operation) into v_headers
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = p_table;
    select t.namespace, t.checks_payloads, t.has_inline_rules into v_topic from headrace_internal.topic t where t.topic_id = p_topic_id;
    insert into headrace_internal.outbox (topic_id, event_id, type, key, payload, headers, emitted_at)
    select p_topic_id, e.event_id, e.type, e.key, e.payload, v_headers, e.emitted_at
    from (
        select headrace.uuid_v7() as event_id, e.type, e.key, e.payload, headrace.clock() as emitted_at
        from unnest(coalesce(p_new_rows, p_old_rows), case p_operation when 'update' then p_old_rows end)
            with ordinality r (row_now, row_before, place)
        cross join lateral headrace_internal.captured_event(v_capture, case p_operation when 'insert' then v_capture.insert_type
            when 'delete' then v_capture.delete_type else v_capture.update_type end, r.row_now, r.row_before) e
        where (p_operation <> 'update' or e.payload -> '_old' <> '{}') and headrace.event_within_limits(e.type, e.key, e.payload, '{}')
            and (not v_topic.checks_payloads or headrace_internal.check_payload(v_topic.namespace, e.type, e.payload))
        -- The outbox numbers rows in the order of the insert, and that number is the producer's order.
        order by r.place) e
    where not v_topic.has_inline_rules
        or headrace_internal.react_inline(p_topic_id, e.event_id, e.type, e.key, e.payload, v_headers, e.emitted_at, null);
    get diagnostics v_rows = row_count;
    if v_rows > 0 then
        perform headrace_internal.wake_topics(array[p_topic_id]);
    end if;
end
$$;
