-- One batch of a correlator with a simple table.
select c.events, c.outputs, c.position from headrace.correlate(%(correlator_id)s, %(max)s) c;
