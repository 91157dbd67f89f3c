-- The id of the action of a rule version on an event. It follows from both, so it is the same wherever it is computed: a uuid of
-- version 8 from their md5. Every part is immutable, so that PostgreSQL inlines the function: hence the cast of the version.
create or replace function headrace_internal.action_id(p_event_id uuid, p_version_id bigint) returns uuid
language sql immutable parallel safe
as $$
    select overlay(overlay(md5(p_event_id::text || ':' || p_version_id::text) placing '8' from 13) placing '8' from 17)::uuid
$$;
