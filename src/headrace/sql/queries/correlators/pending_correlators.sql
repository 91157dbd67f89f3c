-- Correlators with versions to compile. Index: correlator_version_pending.
select distinct v.correlator_id from headrace_internal.correlator_version v where v.status = 'pending' order by v.correlator_id;
