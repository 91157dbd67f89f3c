-- Lets one transaction at a time claim an ordered action, until it ends.
select pg_advisory_xact_lock(hashtextextended(headrace.queue_name(%(namespace)s) || '/' || %(action)s, 0));
