-- Claims a correlator to fire its timers due by a time that no event to come is before.
select c.version_id from headrace_internal.claim_timers(%(correlator_id)s, %(settled)s, 'spark') c;
