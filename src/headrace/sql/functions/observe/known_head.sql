-- What the caller of headrace.metrics remembers of a topic, as JSON text; see headrace_internal.metrics_of_log. Inlined.
create or replace function headrace_internal.known_head(p_version text, p_head bigint, p_times text) returns text
language sql immutable parallel safe
as $$
    -- A version is a number: it needs no escapes.
    select '[' || coalesce('"' || p_version || '"', 'null') || ',' || coalesce(p_head::text, 'null') || ',{' || coalesce(p_times, '') || '}]'
$$;
