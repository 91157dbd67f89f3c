-- Writes the outputs of a micro-batch; times are microseconds since 1970. A repeated output is an error, not skipped.
insert into headrace_internal.stream_output
    (stream_id, correlator, version, key, token, position, output_at, place, evidence, evidence_total, captured)
select %(stream_id)s, %(correlator)s, %(version)s, n.key, n.token, n.position,
    timestamptz 'epoch' + n.us * interval '1 microsecond', n.place, n.evidence::bigint[], n.evidence_total, n.captured::jsonb
from unnest(%(keys)s::text[], %(tokens)s::text[], %(positions)s::bigint[], %(times)s::bigint[], %(places)s::integer[],
    %(evidence)s::text[], %(totals)s::bigint[], %(captured)s::text[])
    n (key, token, position, us, place, evidence, evidence_total, captured);
