-- Is a timer of the correlator due by a settled time, or else by the time of its topic? Index: correlator_instance_due.
select 1 from headrace_internal.correlator_instance i
where i.correlator_id = %(correlator_id)s
    and i.deadline <= (select coalesce(%(settled)s::timestamptz, headrace.log_clock(%(topic_id)s)))
limit 1;
