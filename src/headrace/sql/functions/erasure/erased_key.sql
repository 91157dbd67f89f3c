-- The key of an erased event: its own, or the new one. The key of an output may have been computed from a payload, so it goes.
create or replace function headrace_internal.erased_key(p_key text, p_new_key text, p_is_output boolean) returns text
language sql immutable parallel safe
return case when p_key is null then null when p_is_output then p_new_key else coalesce(p_new_key, p_key) end;
