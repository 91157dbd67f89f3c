-- Writes instances of a correlator.
select headrace_internal.write_instances(%(correlator_id)s, %(keys)s::text[], %(units)s::text[], %(deadlines)s::text[],
    %(started_at)s::timestamptz[], %(seen_at)s::timestamptz[], %(evidence)s::text[], %(totals)s::integer[]);
