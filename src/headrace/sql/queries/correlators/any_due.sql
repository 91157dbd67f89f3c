-- Is a timer of the correlator due, by the time of its topic? Index: correlator_instance_due.
select 1 from headrace_internal.correlator_instance i
where i.correlator_id = %(correlator_id)s and i.deadline <= (
    select headrace.log_clock(c.topic_id) from headrace_internal.correlator c where c.correlator_id = %(correlator_id)s)
limit 1;
