-- One claim of an action with order by key at a time, until the transaction ends.
select pg_advisory_xact_lock(hashtextextended(headrace_internal.queue_name(%(namespace)s) || '/' || %(action)s, 0));
