-- Is a timer of the correlator due by this time, or by now? Index: correlator_instance_due.
select 1 from headrace_internal.correlator_instance i
where i.correlator_id = %(correlator_id)s and i.deadline <= coalesce(%(settled)s, headrace.clock()) limit 1;
