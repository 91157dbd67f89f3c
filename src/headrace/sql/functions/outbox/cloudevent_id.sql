-- The event's id as a uuid: the id itself if it is one, else a name-based uuid (version 8) of source and id.
create or replace function headrace_internal.cloudevent_id(p_source text, p_id text) returns uuid
language sql immutable strict parallel safe
as $$
    select case when p_id ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then p_id::uuid
        else encode(set_byte(set_byte(h.hash, 6, get_byte(h.hash, 6) & 15 | 128), 8, get_byte(h.hash, 8) & 63 | 128), 'hex')::uuid end
    from (select substring(sha256(convert_to(p_source || chr(10) || p_id, 'UTF8')) for 16) as hash) h
$$;
