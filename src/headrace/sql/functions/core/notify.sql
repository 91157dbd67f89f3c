-- Notifies the nodes at commit, unless the notification queue of the server is half full. The queue is shared by all databases, every
-- role may fill it, and once it is full a transaction that has notified cannot commit. Nodes poll as well, so they find the work all
-- the same. Reading the fill also lets PostgreSQL forget what all listeners have read, so that a queue that was full empties again.
create or replace function headrace_internal.notify(p_channel text, p_payload text) returns void
language plpgsql volatile
as $$
begin
    if pg_catalog.pg_notification_queue_usage() < 0.5::double precision then
        perform pg_catalog.pg_notify(p_channel, p_payload);
    end if;
end
$$;
