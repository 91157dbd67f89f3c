-- The instances of these keys, column by column: numbers as they are, lists as their text. Index: correlator_instance_pkey.
select coalesce(array_agg(i.key), '{}'), coalesce(array_agg(i.units::text), '{}'), coalesce(array_agg(i.deadlines::text), '{}'),
    coalesce(array_agg(i.evidence::text), '{}'), coalesce(array_agg(i.evidence_total::bigint), '{}'),
    coalesce(array_agg((extract(epoch from i.started_at) * 1000000)::bigint), '{}'),
    coalesce(array_agg((extract(epoch from i.seen_at) * 1000000)::bigint), '{}')
from unnest(%(keys)s::text[]) k (key)
cross join lateral (
    select i.key, i.units, i.deadlines, i.evidence, i.evidence_total, i.started_at, i.seen_at
    from headrace.correlator_instance i
    where i.correlator_id = %(correlator_id)s and i.key = k.key offset 0
) i;
