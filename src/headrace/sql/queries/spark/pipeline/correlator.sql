-- A correlator's version with its compiled table, if it is the active one. Index: correlator_table_pkey.
select v.correlator as name, v.version, v.pattern, v.key, t.compiled, v.evidence_max, v.forget_after is not null as forgets
from headrace_internal.correlator_table t
join headrace_internal.correlator_version v on v.version_id = t.version_id
where t.correlator_id = %(correlator_id)s and t.version_id = %(version_id)s;
