-- What handlers of consumers wrote, in the order of writing.
select c.seq, c.consumer, c.partition, c.position, c.event_id from headrace_prove.consumed c order by c.seq;
