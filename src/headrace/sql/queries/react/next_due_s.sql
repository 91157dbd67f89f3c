-- How many seconds until the correlator's next timer is due. Index: correlator_instance_due.
select extract(epoch from min(i.deadline) - headrace.clock()) from headrace.correlator_instance i
where i.correlator_id = %(correlator_id)s and i.deadline is not null;
