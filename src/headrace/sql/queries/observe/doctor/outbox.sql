-- The number of events in the outbox, counted up to a limit, and the age of the oldest.
-- The age comes from the event id if it is a version 7 uuid, because emitted_at is up to the publisher. Index: outbox_order.
select count(*) as waiting,
    coalesce(max(extract(epoch from clock_timestamp()) - case
        when substr(w.id_hex, 13, 1) = '7' then ('x' || left(w.id_hex, 12))::bit(48)::bigint / 1000.0
        else extract(epoch from w.emitted_at) end), 0)::double precision as oldest_s
from (
    select replace(o.event_id::text, '-', '') as id_hex, o.emitted_at from headrace_internal.outbox o limit %(limit)s
) w;
