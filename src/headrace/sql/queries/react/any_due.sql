-- Is a timer of the correlator due? Index: correlator_instance_due.
select 1 from headrace.correlator_instance i
where i.correlator_id = %(correlator_id)s and i.deadline <= headrace.clock() limit 1;
