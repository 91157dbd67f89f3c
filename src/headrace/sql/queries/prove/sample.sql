-- How far everything is. Indexes: log_position backwards, the keys of the checker's tables, log_partition for the lag.
select
    coalesce((select sum(h.position) from headrace.topic t cross join lateral headrace.log_head(t.topic_id) h), 0) as logged,
    coalesce((select max(c.seq) from headrace_prove.consumed c), 0) as consumed,
    coalesce((select max(e.seq) from headrace_prove.effect e), 0) as effects,
    coalesce((select sum(l.lag_events) from headrace.consumer_lag l where l.consumer = 'ledger'), 0) as lag,
    (select q.due + q.in_flight + q.delayed from headrace.queue_state() q) as queue;
