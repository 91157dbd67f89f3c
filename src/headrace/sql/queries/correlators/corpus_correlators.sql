-- One correlator per pattern, without a key.
insert into headrace_internal.correlator (namespace, correlator, topic, pattern)
select %(namespace)s, r.name, %(namespace)s, r.pattern
from unnest(%(names)s::text[], %(patterns)s::text[]) with ordinality r (name, pattern, n)
order by r.n
returning correlator_id;
