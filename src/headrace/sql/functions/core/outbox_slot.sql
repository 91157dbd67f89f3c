-- The outbox slot to write to: each of the 4 slots is written for 4 seconds, then rests for 12. By the server's own time, not by
-- headrace.clock(), which costs a publisher more. A publisher may choose another slot, by a clock of its own: nothing is lost, it
-- may only wait for a moment while headrace_internal.trim_outbox truncates that slot.
create or replace function headrace_internal.outbox_slot(p_at timestamptz default statement_timestamp()) returns smallint
language sql stable parallel safe
as $$
    select (pg_catalog.date_part('epoch', p_at)::bigint / 4 % 4::bigint)::smallint
$$;
