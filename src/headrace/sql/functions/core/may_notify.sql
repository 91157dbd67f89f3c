-- True if publishers and senders of actions notify sleeping nodes. PostgreSQL refuses PREPARE TRANSACTION after a NOTIFY, and nobody
-- knows beforehand whether a transaction will be prepared. So where the server allows prepared transactions
-- (max_prepared_transactions > 0) they do not notify, and nodes poll instead. The setting headrace.notify, on or off, overrides it.
-- Nor do they while the notification queue is half full, see headrace_internal.notify. Call it only where a notification would be sent.
create or replace function headrace_internal.may_notify() returns boolean
language sql volatile
as $$
    select case pg_catalog.current_setting('headrace.notify', true) when 'on' then true when 'off' then false
        else pg_catalog.current_setting('max_prepared_transactions') = '0' end
        and pg_catalog.pg_notification_queue_usage() < 0.5::double precision
$$;
