-- How full a namespace's queue is.
select s.due, s.in_flight, s.delayed, s.dead, s.oldest_due_s from headrace.queue_state(%(namespace)s) s;
