-- The state of all action queues.
select n.namespace, s.due, s.dead, s.oldest_due_s
from headrace_internal.namespace n cross join lateral headrace.queue_state(n.namespace) s
order by n.namespace;
