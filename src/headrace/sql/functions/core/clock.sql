-- The one clock. Stable, so that indexes can use it; tests move it by the setting headrace.clock_shift.
create or replace function headrace.clock() returns timestamptz
language sql stable parallel safe
as $$
    select pg_catalog.statement_timestamp() + coalesce(nullif(pg_catalog.current_setting('headrace.clock_shift', true), '')::interval, interval '0')
$$;
