-- A text as uuid; null if it is not one. Other programs may put messages of any form into the queue.
create or replace function headrace_internal.uuid_or_null(p_text text) returns uuid
language sql immutable parallel safe
as $$
    select case when p_text ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then p_text::uuid end
$$;
