-- What dead letters of actions have in common: name of the action, reason, error group. An index of every dead-letter queue holds it,
-- so a change of its result needs the index built again.
create or replace function headrace_internal.dead_letter_group(p_message jsonb) returns text[]
language sql immutable parallel safe
as $$
    select array[
        pg_catalog.left(coalesce(p_message -> 'action' ->> 'action', ''), 200),
        pg_catalog.left(coalesce(p_message ->> 'reason', ''), 200),
        coalesce(headrace_internal.error_group(p_message ->> 'error'), '')]
$$;
