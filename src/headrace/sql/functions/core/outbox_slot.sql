-- The current outbox slot: each of the 8 slots is written for 8 seconds, then rests for 56. A publisher may choose another one, by
-- a clock of its own: nothing is lost, it may only wait for a moment while headrace_internal.trim_outbox truncates that slot.
create or replace function headrace_internal.outbox_slot() returns smallint
language sql stable parallel safe
as $$
    select (date_part('epoch', headrace.clock())::bigint / 8 % 8)::smallint
$$;
