-- The headers of an erased event: only the mark headrace-erased; of a redacted one: its own and the mark headrace-redacted.
create or replace function headrace_internal.erased_headers(p_headers jsonb, p_fields text[], p_erasure_id bigint) returns jsonb
language sql immutable parallel safe
return case when p_fields is null then jsonb_build_object('headrace-erased', p_erasure_id::text)
    else p_headers || jsonb_build_object('headrace-redacted', p_erasure_id::text) end;
