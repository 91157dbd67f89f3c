-- How many actions are dead letters, in all namespaces.
select coalesce(sum(m.queue_length), 0)
from headrace_internal.namespace n
cross join lateral pgmq.metrics(headrace_internal.dead_letter_queue(headrace_internal.queue_of(n.namespace))) m;
