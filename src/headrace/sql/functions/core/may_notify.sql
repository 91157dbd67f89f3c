-- True if publishers and senders of actions notify sleeping nodes. PostgreSQL refuses PREPARE TRANSACTION after a NOTIFY, and nobody
-- knows beforehand whether a transaction will be prepared. So where the server allows prepared transactions
-- (max_prepared_transactions > 0) they do not notify, and nodes poll instead. The setting headrace.notify, on or off, overrides it.
create or replace function headrace_internal.may_notify() returns boolean
language sql stable
as $$
    select case pg_catalog.current_setting('headrace.notify', true) when 'on' then true when 'off' then false
        else pg_catalog.current_setting('max_prepared_transactions') = '0' end
$$;
