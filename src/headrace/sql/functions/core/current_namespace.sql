-- The namespace of a call: the given one, else the setting headrace_internal.namespace, else 'default'.
create or replace function headrace.current_namespace(p_namespace text default null) returns text
language sql stable parallel safe
as $$
    select coalesce(p_namespace, nullif(pg_catalog.current_setting('headrace.namespace', true), ''), 'default')
$$;
