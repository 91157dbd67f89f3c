-- The payload of the completing event as it is quoted in an action or event; null where that would exceed the limits of an event.
create or replace function headrace_internal.quoted_payload(p_payload jsonb) returns jsonb
language sql immutable parallel safe
as $$
    select case when pg_column_size(p_payload) < 256 or octet_length(p_payload::text) <= 1000000 and headrace.json_depth(p_payload, 128) < 128
        then p_payload end
$$;
