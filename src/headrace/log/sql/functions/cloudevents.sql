-- Returns a CloudEvent unchanged, or raises HR311 with what is missing or wrong.
create or replace function headrace_internal.check_cloudevent(p_event jsonb) returns jsonb
language plpgsql immutable parallel safe
as $$
declare
    v_wrong text;
begin
    if jsonb_typeof(p_event) is distinct from 'object' then
        v_wrong := 'it is not a JSON object';
    elsif p_event ->> 'specversion' is distinct from '1.0' then
        v_wrong := format('specversion is %s, not 1.0', coalesce(p_event ->> 'specversion', 'missing'));
    elsif p_event -> 'data' <> 'null' and p_event -> 'data_base64' <> 'null' then
        v_wrong := 'it has both data and data_base64';
    else
        select format('%s is missing or not text', r.name) into v_wrong
        from unnest('{id,source,type}'::text[]) r (name)
        where jsonb_typeof(p_event -> r.name) is distinct from 'string' or p_event ->> r.name = '' limit 1;
    end if;
    if v_wrong is null then
        select format('attribute "%s" breaks the rules', a.key) into v_wrong
        from jsonb_each(p_event) a
        where a.key not in ('data', 'data_base64')
                and (a.key !~ '^[a-z0-9]+$' or jsonb_typeof(a.value) in ('object', 'array'))
            or a.key in ('subject', 'time', 'datacontenttype', 'dataschema', 'partitionkey', 'data_base64')
                and (jsonb_typeof(a.value) not in ('string', 'null') or a.value = '""' and a.key <> 'data_base64')
            or a.key = 'time' and a.value #>> '{}' !~ '^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$'
        limit 1;
    end if;
    if v_wrong is not null then
        raise exception 'not a CloudEvents 1.0 event: %', v_wrong
            using errcode = 'HR311', hint = 'It needs specversion "1.0", id, source and type; names are a-z and 0-9.';
    end if;
    return p_event;
end
$$;

-- Publishes a CloudEvents 1.0 event (structured JSON) in the caller's transaction and returns its event id.
-- The same mapping as headrace.core.from_cloudevent: source → producer, partitionkey → key, time → emitted_at, data → payload,
-- trace context → headers of the same name, everything else → headers with the prefix "ce_".
-- The event's id is the id itself if that is a uuid, else a name-based uuid (version 8) of source and id.
-- Raises HR311 if it is not a CloudEvent. Locks nothing.
-- Calls: check_cloudevent, refuse_reserved_topic, publish.
create or replace function headrace.publish_cloudevent(
    p_topic text, p_event jsonb, p_namespace text default null, p_caller headrace_internal.caller default current_user
) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_namespace text := headrace_internal.authorize(p_caller, 'publish', p_namespace, p_topic);
    v_event     jsonb := jsonb_strip_nulls(headrace_internal.check_cloudevent(p_event) - 'data');
    v_hash      bytea := substring(sha256(convert_to((v_event ->> 'source') || chr(10) || (v_event ->> 'id'), 'UTF8')) for 16);
    v_id        uuid := case
        when v_event ->> 'id' ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then (v_event ->> 'id')::uuid
        else encode(set_byte(set_byte(v_hash, 6, get_byte(v_hash, 6) & 15 | 128), 8, get_byte(v_hash, 8) & 63 | 128), 'hex')::uuid end;
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
