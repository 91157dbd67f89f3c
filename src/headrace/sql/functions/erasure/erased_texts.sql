-- Keys, payloads and headers of archived events as a pending erasure leaves them, in the same order. The database does it, so that a file has
-- exactly the text that the log has. Takes the level admin. Index: erasure_pending_pkey.
create or replace function headrace.erased_texts(
    p_erasure_id bigint, p_topic_id integer, p_keys text[], p_payloads text[], p_headers text[],
    p_caller headrace_internal.caller default current_user
) returns table (key text, payload text, headers text)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform headrace_internal.authorize_id(p_caller, 'admin', 'topic', p_topic_id);
    return query
    select case when t.headers::jsonb ? 'headrace-erased' then t.key else headrace_internal.erased_key(t.key, e.new_key, p.outputs) end,
        case when t.headers::jsonb ? 'headrace-erased' then t.payload
            else headrace_internal.erased_payload(t.payload::jsonb, e.fields, p.outputs)::text end,
        case when t.headers::jsonb ? 'headrace-erased' then t.headers
            else headrace_internal.erased_headers(t.headers::jsonb, e.fields, e.erasure_id)::text end
    from headrace_internal.erasure_pending p
    join headrace_internal.erasure e on e.erasure_id = p.erasure_id
    cross join unnest(p_keys, p_payloads, p_headers) with ordinality t (key, payload, headers, n)
    where p.erasure_id = p_erasure_id and p.topic_id = p_topic_id
    order by t.n;
end
$$;
