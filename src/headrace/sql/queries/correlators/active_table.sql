-- The table of a correlator's active version, how much evidence it keeps, and whether it forgets keys.
select t.compiled, v.evidence_max, v.forget_after is not null
from headrace_internal.correlator_table t
join headrace_internal.correlator_version v on v.version_id = t.version_id
where t.correlator_id = %(correlator_id)s;
