-- The name of a namespace's action queue in pgmq: hr_<number of the namespace>. The catalog shows table names to every role, so they
-- must not contain the name of a namespace; 'default' is no secret.
create or replace function headrace_internal.queue_for(p_namespace text, p_namespace_id integer) returns text
language sql immutable
return case when p_namespace = 'default' then 'hr_default' else 'hr_' || p_namespace_id end;
