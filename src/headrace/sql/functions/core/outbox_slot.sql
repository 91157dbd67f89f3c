-- The current outbox slot: each of the 8 slots is written for 8 seconds, then rests for 56.
create or replace function headrace_internal.outbox_slot() returns smallint
language sql stable parallel safe
as $$
    select (date_part('epoch', headrace.clock())::bigint / 8 % 8)::smallint
$$;
