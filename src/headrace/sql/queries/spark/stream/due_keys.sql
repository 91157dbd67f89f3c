-- The keys of a correlator with timers that are due by a time, in microseconds. Index: stream_state_due.
select s.key from headrace_internal.stream_state s
where s.stream_id = %(stream_id)s and s.correlator = %(correlator)s and s.deadline <= %(until)s;
