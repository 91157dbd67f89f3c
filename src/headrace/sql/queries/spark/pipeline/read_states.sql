-- The instances of these keys, one text per column: the numbers of the keys they belong to, then values separated by commas,
-- or lists by semicolons. Null if there are none. (A double is exact to the microsecond until after 2100, and ten times faster
-- than numeric.) Index: correlator_instance_pkey.
select string_agg(k.n::text, ','), string_agg(i.units::text, ';'), string_agg(i.deadlines::text, ';'),
    string_agg(i.evidence::text, ';'), string_agg(i.evidence_total::text, ','),
    string_agg((date_part('epoch', i.started_at) * 1000000)::bigint::text, ','),
    string_agg((date_part('epoch', i.seen_at) * 1000000)::bigint::text, ',')
from unnest(%(keys)s::text[]) with ordinality k (key, n)
cross join lateral (
    select i.units, i.deadlines, i.evidence, i.evidence_total, i.started_at, i.seen_at
    from headrace_internal.correlator_instance i
    where i.correlator_id = %(correlator_id)s and i.key = k.key offset 0
) i;
