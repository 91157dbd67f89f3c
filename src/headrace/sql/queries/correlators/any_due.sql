-- Is a timer of the correlator due, unless it is paused, by the time of its topic? Index: correlator_instance_due.
select 1 from headrace_internal.correlator_instance i
where i.correlator_id = %(correlator_id)s and i.deadline <= (
    select headrace.log_clock(c.topic_id) from headrace_internal.correlator c where c.correlator_id = %(correlator_id)s)
    and not exists (
        select from headrace_internal.correlator_table t join headrace_internal.pause p on p.consumer_id = t.consumer_id
        where t.correlator_id = %(correlator_id)s)
limit 1;
