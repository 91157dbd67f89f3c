-- One batch of a correlator with a simple table.
select c.events, c.outputs, c.position from headrace_internal.correlate(%(correlator_id)s, %(max)s) c;
