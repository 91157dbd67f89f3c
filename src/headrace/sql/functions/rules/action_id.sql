-- The id of the action that a version asks for on an event: it follows from both, so it is the same wherever it is computed.
-- A uuid of version 8, made of their md5. Inlined, for which every part has to be immutable: hence the cast of the version.
create or replace function headrace_internal.action_id(p_event_id uuid, p_version_id bigint) returns uuid
language sql immutable parallel safe
as $$
    select overlay(overlay(md5(p_event_id::text || ':' || p_version_id::text) placing '8' from 13) placing '8' from 17)::uuid
$$;
