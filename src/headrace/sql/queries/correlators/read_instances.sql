-- The instances of these keys. Index: correlator_instance_pkey.
select i.key, i.units, i.deadlines, i.started_at, i.seen_at, i.evidence, i.evidence_total, i.memory
from unnest(%(keys)s::text[]) k (key)
cross join lateral (
    select i.key, i.units, i.deadlines, i.started_at, i.seen_at, i.evidence, i.evidence_total, i.memory
    from headrace.correlator_instance i
    where i.correlator_id = %(correlator_id)s and i.key = k.key offset 0
) i;
