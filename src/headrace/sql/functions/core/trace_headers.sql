-- The W3C trace context of headers, for what an event causes: traceparent, tracestate and the links of a correlator. Null if there is
-- none or it is malformed. For events without one it costs one look at the headers.
-- In SQL and without "set", so that it is inlined. The same form as in headrace/tracing/context.py.
create or replace function headrace_internal.trace_headers(p_headers jsonb) returns jsonb
language sql immutable parallel safe
as $$
    select case when p_headers ? 'traceparent' then
        case when p_headers ->> 'traceparent' ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{0,200})?$' then
            jsonb_build_object('traceparent', p_headers ->> 'traceparent')
            || case when jsonb_typeof(p_headers -> 'tracestate') = 'string' and char_length(p_headers ->> 'tracestate') <= 512
                then jsonb_build_object('tracestate', p_headers -> 'tracestate') else '{}' end
            || case when jsonb_typeof(p_headers -> 'tracelinks') = 'array' and pg_column_size(p_headers -> 'tracelinks') <= 8192
                then jsonb_build_object('tracelinks', p_headers -> 'tracelinks') else '{}' end
        end
    end
$$;
