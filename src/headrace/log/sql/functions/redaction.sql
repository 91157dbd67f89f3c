-- Returns the key of an erased event: its own, or the new one. The key of an output may have been computed from a payload, so it goes.
create or replace function headrace_internal.erased_key(p_key text, p_new_key text, p_is_output boolean) returns text
language sql immutable parallel safe
return case when p_key is null then null when p_is_output then p_new_key else coalesce(p_new_key, p_key) end;

-- Returns the headers of an erased event: only the mark headrace-erased; of a redacted one: its own and the mark headrace-redacted.
create or replace function headrace_internal.erased_headers(p_headers jsonb, p_fields text[], p_erasure_id bigint) returns jsonb
language sql immutable parallel safe
return case when p_fields is null then jsonb_build_object('headrace-erased', p_erasure_id::text)
    else p_headers || jsonb_build_object('headrace-redacted', p_erasure_id::text) end;

-- What is left of a payload. Without fields: an empty object. With fields, such as 'email' or 'customer.name': null in their place.
-- An output of a correlator quotes an event, whose fields may be anywhere in it: it loses the quotation as a whole.
create or replace function headrace_internal.erased_payload(p_payload jsonb, p_fields text[], p_is_output boolean default false)
returns jsonb
language plpgsql immutable parallel safe
as $$
declare
    v_payload jsonb := p_payload;
    v_field   text;
begin
    if p_fields is null then
        return '{}';
    end if;
    if jsonb_typeof(p_payload) <> 'object' then
        return p_payload;
    end if;
    if p_is_output then
        return p_payload || jsonb_build_object('payload', null, 'key', null)
            || case when p_payload ? 'captured' then jsonb_build_object('captured', '{}'::jsonb) else '{}' end;
    end if;
    foreach v_field in array p_fields loop
        v_payload := jsonb_set(v_payload, string_to_array(v_field, '.'), 'null', false);
    end loop;
    return v_payload;
end
$$;

-- Keys, payloads and headers of archived events as a pending erasure leaves them, in the same order. The database does it, so that a file has
-- exactly the text that the log has. Takes the level admin. Index: erasure_pending_pkey.
-- Calls: erased_key, erased_payload, erased_headers.
create or replace function headrace.erased_texts(
    p_erasure_id bigint, p_topic_id integer, p_keys text[], p_payloads text[], p_headers text[],
    p_caller headrace_internal.caller default current_user
) returns table (key text, payload text, headers text)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select headrace_internal.authorize_id(p_caller, 'admin', 'topic', p_topic_id);
    select case when t.headers::jsonb ? 'headrace-erased' then t.key else headrace_internal.erased_key(t.key, e.new_key, p.outputs) end,
        case when t.headers::jsonb ? 'headrace-erased' then t.payload
            else headrace_internal.erased_payload(t.payload::jsonb, e.fields, p.outputs)::text end,
        case when t.headers::jsonb ? 'headrace-erased' then t.headers
            else headrace_internal.erased_headers(t.headers::jsonb, e.fields, e.erasure_id)::text end
    from headrace_internal.erasure_pending p
    join headrace_internal.erasure e on e.erasure_id = p.erasure_id
    cross join unnest(p_keys, p_payloads, p_headers) with ordinality t (key, payload, headers, n)
    where p.erasure_id = p_erasure_id and p.topic_id = p_topic_id
    order by t.n
$$;
