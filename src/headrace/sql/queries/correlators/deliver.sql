-- Delivers outputs of a correlator.
select headrace_internal.deliver_correlations(%(version_id)s, %(keys)s::text[], %(positions)s::bigint[], %(times)s::timestamptz[],
    %(tokens)s::text[], %(places)s::integer[], %(evidence)s::text[], %(totals)s::integer[]);
