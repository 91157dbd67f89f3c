-- A text as uuid; null where it is none. What others put into the queue may have any form.
create or replace function headrace_internal.uuid_or_null(p_text text) returns uuid
language sql immutable parallel safe
as $$
    select case when p_text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_text::uuid end
$$;
