-- Claims a correlator to fire its timers due by a settled time.
select c.version_id from headrace_internal.claim_timers(%(correlator_id)s, %(settled)s) c;
