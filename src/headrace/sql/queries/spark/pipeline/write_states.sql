-- Writes instances; times are microseconds since 1970.
select headrace_internal.write_instances(%(correlator_id)s, %(key)s::text[], %(units)s::text[], %(deadlines)s::text[],
    (select array_agg(timestamptz 'epoch' + s.us * interval '1 microsecond' order by s.n)
        from unnest(%(started_at)s::bigint[]) with ordinality s (us, n)),
    (select array_agg(timestamptz 'epoch' + s.us * interval '1 microsecond' order by s.n)
        from unnest(%(seen_at)s::bigint[]) with ordinality s (us, n)),
    %(evidence)s::text[], %(evidence_total)s::integer[]);
