-- The payload of the completing event as it goes into what an output becomes; null where that would break the limits of an event.
create or replace function headrace_internal.quoted_payload(p_payload jsonb) returns jsonb
language sql immutable parallel safe
as $$
    select case when pg_column_size(p_payload) < 256 or octet_length(p_payload::text) <= 1000000 and headrace_internal.json_depth(p_payload, 128) < 128
        then p_payload end
$$;
