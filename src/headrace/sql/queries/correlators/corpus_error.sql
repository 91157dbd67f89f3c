-- Why a pattern does not run.
select v.error from headrace_internal.correlator_version v where v.namespace = %(namespace)s and v.correlator = %(name)s;
