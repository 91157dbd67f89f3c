-- Publishes a CloudEvents 1.0 event (structured JSON) in the caller's transaction and returns its event id.
-- The same mapping as headrace.core.from_cloudevent: source → producer, partitionkey → key, time → emitted_at, data → payload,
-- trace context → headers of the same name, everything else → headers with the prefix "ce_".
-- Raises HR311 if it is not a CloudEvent. Locks nothing.
create or replace function headrace.publish_cloudevent(
    p_topic text, p_event jsonb, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns uuid
language plpgsql volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'publish', p_namespace, p_topic);
    v_event     jsonb := jsonb_strip_nulls(headrace_internal.check_cloudevent(p_event) - 'data');
    v_id        uuid := headrace_internal.cloudevent_id(v_event ->> 'source', v_event ->> 'id');
    v_headers   jsonb;
begin
    perform headrace_internal.refuse_reserved_topic(p_topic, p_caller);
    select coalesce(jsonb_object_agg(case when a.key in ('traceparent', 'tracestate') then a.key else 'ce_' || a.key end, a.value), '{}')
    into v_headers
    from jsonb_each(v_event) a
    where a.key not in ('specversion', 'type', 'source', 'partitionkey', 'data_base64', 'headraceheaders')
        and not (a.key = 'id' and v_id::text = v_event ->> 'id')
        -- A time of whole microseconds is kept by emitted_at alone.
        and not (a.key = 'time' and v_event ->> 'time' !~ '\.\d{7}');
    if v_event ? 'data_base64' then
        v_headers := v_headers || '{"ce_data_base64": true}';
    end if;
    return headrace.publish(
        p_topic, v_event ->> 'type', coalesce(p_event -> 'data', v_event -> 'data_base64', 'null'),
        p_key => v_event ->> 'partitionkey',
        p_headers => v_headers || coalesce((v_event ->> 'headraceheaders')::jsonb, '{}'),
        p_event_id => v_id,
        -- Cut, not rounded.
        p_emitted_at => regexp_replace(v_event ->> 'time', '(\.\d{6})\d+', '\1')::timestamptz,
        p_producer => nullif(v_event ->> 'source', '/topics/' || p_topic),
        p_namespace => v_namespace);
end
$$;
