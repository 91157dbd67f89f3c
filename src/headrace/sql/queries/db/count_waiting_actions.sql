-- How many actions wait or are in flight, in all namespaces.
select coalesce(sum(m.queue_length), 0)
from headrace_internal.namespace n
cross join lateral pgmq.metrics(headrace.queue_name(n.namespace)) m;
