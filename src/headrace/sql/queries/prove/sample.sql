-- Progress of the workload. `consumed` counts the consumer of all orders, which should keep up with them; other consumers are slow
-- on purpose. Indexes: log_position backwards, the keys of the checker's tables, log_partition for the lag.
select
    coalesce((select sum(h.position) from headrace_internal.topic t cross join lateral headrace.log_head(t.topic_id) h), 0) as logged,
    orders.head - ledger.lag as consumed,
    coalesce((select max(e.seq) from headrace_prove.effect e), 0) as effects,
    ledger.lag,
    (select q.due + q.in_flight + q.delayed + q.retrying + q.held from headrace.queue_state() q) as queue
from (
    select coalesce(sum(h.position), 0) as head
    from headrace_internal.topic t cross join lateral headrace.log_head(t.topic_id) h
    where t.topic = 'orders'
) orders
cross join (
    select coalesce(sum(l.lag_events), 0) as lag from headrace.consumer_lag l where l.consumer = 'ledger'
) ledger;
